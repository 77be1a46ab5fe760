//! Data sets as uint8 tensors on the device, seeded order and augmentation.
