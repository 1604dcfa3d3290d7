module wave
  implicit none
contains
  ! One step of u_tt = u_xx by the method of Euler and Cromer; the ends are fixed.
  subroutine advance(u, v, dt, dx)
    real(8), intent(inout) :: u(:), v(:)
    real(8), intent(in) :: dt, dx
    integer :: i
    do i = 2, size(u) - 1
      v(i) = v(i) + dt * (u(i - 1) - 2 * u(i) + u(i + 1)) / dx**2
    end do
    u(2:size(u) - 1) = u(2:size(u) - 1) + dt * v(2:size(u) - 1)
  end subroutine
end module
