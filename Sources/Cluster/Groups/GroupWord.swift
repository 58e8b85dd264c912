/// What a node says that it knows of another one's share groups: all changes up to one, as it was told them in a conversation.
struct GroupWord: Equatable {
    var conversation: UInt64 = 0
    var through: UInt64 = 0
}
