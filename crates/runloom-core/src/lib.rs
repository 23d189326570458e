//! The product: the pure run machine, the ports, the driver, the worker and the use cases.
