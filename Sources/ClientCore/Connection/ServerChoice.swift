/// Which of several servers is tried next: in turn, the one that worked first again; and where a server sends its clients to another.
public struct ServerChoice: Sendable {
    private let count: Int
    private var index = 0
    private var triedCount = 0
    private var redirectionCount = 0

    /// - Parameter count: how many servers there are, 1 or more.
    public init(count: Int) { self.count = max(1, count) }

    /// The place of the server to be tried.
    public var current: Int { index }

    /// It could not be reached, or did not let us in. Returns whether all have been tried since one did: then there is to be a pause.
    public mutating func failed() -> Bool {
        index = (index + 1) % count
        triedCount += 1
        guard triedCount >= count else { return false }
        triedCount = 0
        redirectionCount = 0
        return true
    }

    /// The first is tried next, and the others after it.
    public mutating func returnToFirst() { (index, triedCount) = (0, 0) }

    /// It let us in.
    public mutating func succeeded() { triedCount = 0 }

    /// The connection has lasted for a while: where servers sent their clients before does not count.
    public mutating func lasted() { redirectionCount = 0 }

    /// A server names another. Returns whether that should be followed.
    public mutating func mayFollow() -> Bool {
        redirectionCount += 1
        return redirectionCount <= Self.redirectionsMax
    }

    private static let redirectionsMax = 4
}
