//! Where results go that isn't a file of their own.
