/// What a node tells of its members of one share group; the same again changes nothing.
public struct GroupNews: Equatable, Sendable {
    /// By which other nodes name the group to this one.
    public var number: UInt32
    public var name: ShareGroupName
    public var size: GroupSize
    /// Whether the node reads the log, so that it can be dealt what stands there.
    public var readsLog = false

    public init(number: UInt32, name: ShareGroupName, size: GroupSize) {
        (self.number, self.name, self.size) = (number, name, size)
    }

    /// An upper bound of its bytes in a message.
    var byteCountMax: Int { 25 + name.shareName.count + name.filter.count }
}
