! A wave on a string: writes wave_000.csv (the initial state) and wave_001.csv, then "finished".
program main
  use wave
  implicit none
  integer, parameter :: cells = 64
  real(8) :: u(cells), v(cells)
  integer :: i, step
  u = [(sin(3.14159265358979d0 * (i - 1) / (cells - 1)), i = 1, cells)]
  v = 0
  call write_state("wave_000.csv", u)
  do step = 1, 300
    call advance(u, v, 0.002d0, 1.0d0 / (cells - 1))
  end do
  call write_state("wave_001.csv", u)
  print "(a)", "finished"
contains
  subroutine write_state(name, u)
    character(*), intent(in) :: name
    real(8), intent(in) :: u(:)
    integer :: i
    open(10, file=name)
    write(10, "(a)") "x,u"
    do i = 1, size(u)
      write(10, "(f8.6,a,es22.14)") real(i - 1, 8) / (size(u) - 1), ",", u(i)
    end do
    close(10)
  end subroutine
end program
