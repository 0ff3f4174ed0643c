//! Kill campaigns and hostile input against real processes and real files.
