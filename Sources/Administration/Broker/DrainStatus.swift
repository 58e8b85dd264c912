/// How clients are to be sent away.
public struct DrainOrder: Sendable, Equatable {
    /// Where they are to go instead, as 5.0's Server Reference; nil for the other nodes of the cluster, or nowhere in particular.
    public var serverReference: String?
    /// How many a second, all loops together.
    public var perSecond: Int
    /// Whether the broker ends when all have gone.
    public var stops: Bool

    public init(serverReference: String? = nil, perSecond: Int, stops: Bool) {
        (self.serverReference, self.perSecond, self.stops) = (serverReference, perSecond, stops)
    }
}

/// How far that is.
public struct DrainStatus: Sendable, Equatable {
    public var order: DrainOrder
    /// When it began, in milliseconds since 1970.
    public var since: UInt64
    /// Connections that are still there.
    public var connectionsLeft: Int
    /// Whether all have gone; nobody is let in all the same.
    public var isDone: Bool
    /// Where clients are sent: as the order says, or the other nodes of the cluster.
    public var places: [String] = []

    public init(order: DrainOrder, since: UInt64, connectionsLeft: Int, isDone: Bool) {
        (self.order, self.since, self.connectionsLeft, self.isDone) = (order, since, connectionsLeft, isDone)
    }
}
