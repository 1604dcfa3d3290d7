"""Grids and matrices: rows, columns, borders and boards."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def count_in_grid(s: Source) -> Draft:
    n = s.number(1, 6)
    return draft(
        "count_in_grid|cells_with_value|how_many_cells",
        "grid|board|rows: list[list[int]] -> int",
        [
            "Return how many cells of $grid, a list of rows, contain the number $n.",
            "The list $grid consists of rows of numbers. Count the numbers equal to $n in all rows together.",
        ],
        "return sum(row.count($n) for row in $grid)",
        lambda: (s.grid(n - 1, n + 1),),
        [([],), ([[n]],), ([[n, n], [n + 1, n]],)],
        n=n,
    )


@family(1)
def diagonal_sum(s: Source) -> Draft:
    which, index = s.pick(
        ("from the top left to the bottom right", "i"), ("from the top right to the bottom left", "-i - 1")
    )
    return draft(
        "diagonal_sum|sum_on_diagonal|add_diagonal",
        "grid|matrix|square: list[list[int]] -> int",
        [
            "The list $grid has as many rows as columns. Return the sum of the numbers on its diagonal $which.",
            "Add up the numbers of the square matrix $grid that lie on the line $which, and return the sum.",
        ],
        f"return sum(row[{index}] for i, row in enumerate($grid))",
        lambda: (s.square(),),
        [([[4]],), ([[1, 2], [3, 4]],)],
        which=which,
    )


@family(1)
def column_of_grid(s: Source) -> Draft:
    i = s.number(1, 3)
    return draft(
        "column_of|take_column|nth_column",
        "grid|table|rows: list[list[int]] -> list[int]",
        [
            "Return the column with the index $i of $grid, as a list from top to bottom. Every row has more than $i "
            "numbers.",
            "Return a list with the item at index $i of each row of $grid. All rows are long enough.",
        ],
        "return [row[$i] for row in $grid]",
        lambda: ([s.ints(0, 9, i + 1, i + 1 + s.number(0, 2)) for _ in range(s.number(0, 4))],),
        [([],), ([list(range(i + 1))],)],
        i=i,
    )


@family(1)
def transposed(s: Source) -> Draft:
    return draft(
        "rows_to_columns|flip_table|turn_table",
        "table|rows|grid: list[list] -> list[list]",
        [
            "All rows of $table have the same length. Return a list of its columns, each one as a list from top to "
            "bottom. There is at least one row.",
            "Exchange rows and columns: the first row of the result is the first column of $table, and so on. $table "
            "has one or more rows of equal length.",
        ],
        "return [list(column) for column in zip(*$table)]",
        lambda: (s.grid(),),
        [([[1]],), ([[1, 2, 3]],), ([[1], [2]],)],
    )


@family(1)
def largest_in_each_row(s: Source) -> Draft:
    extreme, word = s.pick(("max", "largest"), ("min", "smallest"))
    return draft(
        "extreme_of_rows|best_per_row|record_in_each_row",
        "grid|weeks|rows: list[list[int]] -> list[int]",
        [
            "Return a list with the $word number of each row of $grid. No row is empty.",
            "For every list in $grid, find its $word number; return these numbers in the order of the rows. Each row "
            "has at least one number.",
        ],
        "return [$extreme(row) for row in $grid]",
        lambda: (s.grid(-9, 9, 0),),
        [([],), ([[3]],), ([[1, 2], [4, 3]],)],
        extreme=extreme,
        word=word,
    )


@family(2)
def row_with_largest_sum(s: Source) -> Draft:
    extreme, word = s.pick(("max", "largest"), ("min", "smallest"))
    return draft(
        "row_with_extreme_sum|strongest_row|choose_row",
        "grid|teams|rows: list[list[int]] -> int",
        [
            "Return the index of the row of $grid whose sum is $word. If several rows have that sum, return the first "
            "index. There is at least one row.",
            "Add up the numbers of each list in the non-empty list $grid, and return the position, counted from 0, of "
            "the $word sum, the first one if there are several.",
        ],
        """
        sums = [sum(row) for row in $grid]
        return sums.index($extreme(sums))
        """,
        lambda: (s.grid(),),
        [([[2]],), ([[1, 2], [2, 1], [0, 0], [3, 3]],), ([[3, 3], [0, 1], [1, 0]],)],
        extreme=extreme,
        word=word,
    )


@family(1)
def grid_of_value(s: Source) -> Draft:
    return draft(
        "make_board|empty_grid|new_table",
        "n|height|count: int, m|width|size: int -> list[list[int]]",
        [
            "Return a list of $n rows, where each row is a list of $m times the number $fill.",
            "Make a table with $n rows and $m columns that contains $fill everywhere, as a list of lists.",
        ],
        "return [[$fill] * $m for _ in range($n)]",
        lambda: (s.number(0, 5), s.number(0, 5)),
        [(0, 3), (2, 0), (1, 1)],
        fill=s.pick(0, 1, -1, 7),
    )


@family(2)
def multiplication_table(s: Source) -> Draft:
    symbol, word = s.pick(("*", "product"), ("+", "sum"))
    return draft(
        "operation_table|times_table|grid_of_results",
        "n|size: int -> list[list[int]]",
        [
            "Return a list of $n rows with $n numbers each, where the number in row i and column j is the $word of i "
            "and j. Rows and columns are counted from $start.",
            "Make a table of size $n by $n: each cell holds the $word of its row number and its column number, which "
            "begin with $start.",
        ],
        "return [[i $symbol j for j in range($start, $n + $start)] for i in range($start, $n + $start)]",
        lambda: (s.number(0, 7),),
        [(0,), (1,), (2,)],
        symbol=symbol,
        word=word,
        start=s.number(1, 3),
    )


@family(1)
def numbers_from_rows(s: Source) -> Draft:
    n = s.number(0, 20)
    return draft(
        "flatten_if|numbers_in_rows|pick_from_rows",
        "rows|groups|grid: list[list[int]] -> list[int]",
        [
            "Return one list with all numbers from the rows of $rows that are larger than $n, row by row.",
            "Go through the lists in $rows one after the other and collect the numbers above $n in a single list.",
        ],
        "return [x for row in $rows for x in row if x > $n]",
        lambda: ([s.ints(n - 5, n + 6, 0, 4) for _ in range(s.number(0, 4))],),
        [([],), ([[], [n, n + 1]],)],
        n=n,
    )


@family(2)
def top_and_bottom_row(s: Source) -> Draft:
    return draft(
        "ring_cells|border_sum|outer_cells",
        "grid|field|board: list[list[int]] -> int",
        [
            "Return the sum of the numbers in the first and in the last row of $grid. If there is only one row, count "
            "it once. There is at least one row.",
            "Add up the top row and the bottom row of the non-empty list $grid of rows. A single row counts once.",
        ],
        """
        if len($grid) == 1:
            return sum($grid[0])
        return sum($grid[0]) + sum($grid[-1])
        """,
        lambda: (s.grid(),),
        [([[1, 2]],), ([[1], [2]],), ([[1, 1], [5, 5], [2, 2]],)],
    )


@family(1)
def grid_to_text(s: Source) -> Draft:
    marks = s.pick(("#", "."), ("X", "-"), ("*", " "), ("o", "_"))
    return draft(
        "draw_grid|picture|show_board",
        "grid|pixels|board: list[list[int]] -> list[str]",
        [
            "Draw $grid: return one text per row, in which each 1 is written as $on!r and each 0 as $off!r.",
            "Each row of $grid consists of zeros and ones. Return a list with a text for each row, with $on!r for a 1 "
            "and $off!r for a 0.",
        ],
        'return ["".join($on!r if cell else $off!r for cell in row) for row in $grid]',
        lambda: (s.grid(0, 1),),
        [([],), ([[0]],), ([[1, 0]],)],
        on=marks[0],
        off=marks[1],
    )


@family(3)
def neighbor_count(s: Source) -> Draft:
    return draft(
        "count_neighbors|mines_around|neighbors_of_cell",
        "grid|field|board: list[list[int]], row|r|i: int, column|c|j: int -> int",
        [
            "Return how many of the cells directly left, right, above and below the cell in row $row and column "
            "$column of $grid contain a 1. Cells outside of the grid do not count.",
            "Count the ones among the up to four neighbors of a cell of $grid, which has the row index $row and the "
            "column index $column. Diagonal neighbors do not count.",
        ],
        """
        count = 0
        for y, x in [($row - 1, $column), ($row + 1, $column), ($row, $column - 1), ($row, $column + 1)]:
            if 0 <= y < len($grid) and 0 <= x < len($grid[0]):
                count += $grid[y][x]
        return count
        """,
        lambda: ((g := s.grid(0, 1)), s.number(0, len(g) - 1), s.number(0, len(g[0]) - 1)),
        [([[1]], 0, 0), ([[0, 1], [1, 0]], 0, 0), ([[0, 1], [1, 0]], 1, 1), ([[1, 1, 1], [1, 0, 1], [1, 1, 1]], 1, 1)],
    )


@family(1)
def rows_all_equal(s: Source) -> Draft:
    mark = s.pick("x", "o", "A", "#")
    return draft(
        "winning_row|has_full_row|someone_has_won",
        "board|grid|rows: list[list[str]] -> bool",
        [
            "Return True if at least one row of $board consists only of the mark $mark!r, and False otherwise. Every "
            "row has at least one cell.",
            "Return whether there is a row in $board in which each cell is $mark!r. No row is empty.",
        ],
        "return any(all(cell == $mark!r for cell in row) for row in $board)",
        lambda: ([s.some([mark, mark, "."], w, w) for w in [s.number(1, 3)] for _ in range(s.number(1, 3))],),
        [([],), ([[mark]],), ([["."]],), ([[mark, "."], [".", mark]],)],
        mark=mark,
    )


@family(1)
def added_grids(s: Source) -> Draft:
    symbol, word = s.pick(("+", "sum"), ("-", "difference"))
    return draft(
        "combine_grids|cell_by_cell|matrix_step",
        "a|first|left: list[list[int]], b|second|right: list[list[int]] -> list[list[int]]",
        [
            "The grids $a and $b have the same size. Return a new grid in which each cell is the $word of the cells at "
            "the same place in $a and $b.",
            "Return the cell-by-cell $word of two equally large lists of rows, $a and $b.",
        ],
        "return [[x $symbol y for x, y in zip(p, q)] for p, q in zip($a, $b)]",
        lambda: ((g := s.grid()), [s.ints(0, 9, len(g[0]), len(g[0])) for _ in g]),
        [([[1]], [[2]]), ([[1, 2]], [[3, 5]])],
        symbol=symbol,
        word=word,
    )


@family(3)
def matrix_times_vector(s: Source) -> Draft:
    return draft(
        "apply_weights|row_products|matrix_times_list",
        "grid|matrix|rows: list[list[int]], weights|vector|factors: list[int] -> list[int]",
        [
            "For each row of $grid, multiply its numbers by the numbers at the same places of $weights and add up the "
            "products. Return the list of sums. Rows and $weights are equally long.",
            "Multiply the matrix $grid by the vector $weights and return the resulting list of numbers.",
        ],
        "return [sum(x * w for x, w in zip(row, $weights)) for row in $grid]",
        lambda: ((g := s.grid()), s.ints(-3, 5, len(g[0]), len(g[0]))),
        [([[2]], [3]), ([[1, 2], [3, 4]], [1, 0])],
    )


@family(1)
def is_symmetric(s: Source) -> Draft:
    return draft(
        "is_mirror_grid|rows_are_mirrored|left_equals_right",
        "grid|picture|rows: list[list[int]] -> bool",
        [
            "Return True if every row of $grid reads the same from left to right and from right to left, and False "
            "otherwise.",
            "Return whether the picture $grid, a list of rows, stays the same when its left and right sides are "
            "exchanged.",
        ],
        "return all(row == row[::-1] for row in $grid)",
        lambda: ([s.pick([a, b, a], [a, a], [b], [a, b]) for a, b in s.pairs(0, 2, 0, 3)],),
        [([],), ([[1, 2]],), ([[1, 2, 1], [0, 1, 1]],)],
    )


@family(3)
def find_in_grid(s: Source) -> Draft:
    return draft(
        "find_in_grid|locate|where_on_map",
        "grid|map_rows|board: list[list[int]], value|target|number: int -> tuple[int, int]",
        [
            "Return the row index and the column index of the first cell of $grid that contains $value, as a tuple. "
            "Search row by row, each row from left to right. If there is none, return ($none, $none).",
            "Look for $value in $grid, line by line. Return a tuple of the row and the column where it is found first, "
            "or ($none, $none) if it does not occur.",
        ],
        """
        for i, row in enumerate($grid):
            if $value in row:
                return i, row.index($value)
        return $none, $none
        """,
        lambda: (s.grid(0, 6), s.number(0, 6)),
        [([], 1), ([[1]], 1), ([[1, 2], [2, 1]], 2), ([[0]], 5)],
        none=s.pick(-1, -1, None),
    )


@family(2)
def path_on_slope(s: Source) -> Draft:
    return draft(
        "trees_on_slope|slide_down|hits_on_way",
        "rows|hill|forest: list[str] -> int",
        [
            "The rows of a map are texts of equal length. Begin at the first character of the first row and move $k to "
            "the right for each row down; behind the end of a row continue at its beginning. Return how many times you "
            "are on a '#'.",
            "Count the rows i of $rows, beginning with 0, whose character at position $k times i is '#'. Positions "
            "behind the end of the row start again at its beginning.",
        ],
        'return sum(row[i * $k % len(row)] == "#" for i, row in enumerate($rows))',
        lambda: ([s.letters("#.", w, w) for w in [s.number(2, 5)] for _ in range(s.number(1, 6))],),
        [([],), (["#"],), (["#.", "#.", "##"],)],
        k=s.number(1, 3),
    )


@family(3)
def falling_stones(s: Source) -> Draft:
    return draft(
        "drop_stones|gravity|fall_down",
        "column|tower|shaft: str -> str",
        [
            "A column is given from top to bottom: 'o' is a stone and '.' is air. All stones fall down as far as they "
            "can. Return the column afterwards.",
            "Move all characters 'o' of $column to its end and all characters '.' to its beginning. Return the new "
            "text.",
        ],
        """
        stones = $column.count("o")
        return "." * (len($column) - stones) + "o" * stones
        """,
        lambda: (s.letters("o.", 0, 8),),
        [("",), ("o",), ("o.",), (".o",)],
    )


@family(3)
def life_step(s: Source) -> Draft:
    return draft(
        "next_cells|cell_rule|one_generation",
        "cells|row|state: list[int] -> list[int]",
        [
            "The list $cells contains zeros and ones. In the next generation a cell is 1 if exactly one of its two "
            "neighbors is 1 now, and 0 otherwise. Beyond both ends everything is 0. Return the next generation.",
            "Return a list in which each number is 1 if the numbers left and right of it in $cells are different, and "
            "0 if they are equal. A missing neighbor counts as 0.",
        ],
        """
        padded = [0] + $cells + [0]
        return [int(padded[i] != padded[i + 2]) for i in range(len($cells))]
        """,
        lambda: (s.ints(0, 1, 0, 8),),
        [([],), ([1],), ([1, 0],), ([0, 1, 0],)],
    )
