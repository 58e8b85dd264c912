/// How many messages of an inbox nobody has read, by conversation and in all.
public struct UnreadCount: Hashable, Sendable {
    public private(set) var total = 0
    /// Conversations with unread messages.
    public private(set) var conversations: [String: Int] = [:]

    public init() {}

    /// Of one conversation.
    public subscript(conversation: String) -> Int {
        get { conversations[conversation] ?? 0 }
        set {
            total += newValue - self[conversation]
            conversations[conversation] = newValue == 0 ? nil : newValue
        }
    }
}
