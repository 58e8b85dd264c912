/// Names a share group on all nodes: the ShareName, and the filter behind it.
public struct ShareGroupName: Hashable, Sendable {
    public let shareName: [UInt8]
    /// Without `$share/NAME/`.
    public let filter: [UInt8]

    public init(shareName: [UInt8], filter: [UInt8]) { (self.shareName, self.filter) = (shareName, filter) }
}
