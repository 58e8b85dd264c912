/// A message that a share group had given to a session, taken back from it.
struct SharedEntry {
    let message: Message
    /// The group's serial number.
    let group: UInt32
    /// The key of its row in the store, 0 for none: to be ended when another member has the message.
    let storeNumber: UInt64
    let hasFlow: Bool
}
