/// A message that a share group had given to a session, taken back from it.
struct SharedEntry {
    let message: Message
    /// The group's serial number.
    let group: UInt32
}
