//! Tables of the machine.
