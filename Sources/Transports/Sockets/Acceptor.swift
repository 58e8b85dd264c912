public import EpollLoop
public import Platform

/// Where connections come from: a `Listener`, or what a test puts in its place.
///
/// Owned by the loop's thread from `serve` on.
public protocol Acceptor: AnyObject {
    /// The file of a Unix socket, which stands for the address that its peers do not have; nil for any other.
    var path: String? { get }

    /// Lets nobody connect until `resume`: where the kernel can, it refuses them; else they are not accepted.
    func suspend()

    /// Goes on after `suspend`; nothing before it.
    func resume() throws(SystemError)

    /// Accepts on the loop: `accept` gets each connection, `report` each trouble once. Throws when the loop cannot take it.
    func serve(
        on loop: EventLoop, accept: @escaping (any ByteChannel) -> Void, report: @escaping (ListenerReport) -> Void
    ) throws(SystemError)

    /// Accepts nothing more; connections that were accepted live on.
    func stop()
}

extension Listener: Acceptor {
    public var path: String? { boundAddress.path }

    public func serve(
        on loop: EventLoop, accept: @escaping (any ByteChannel) -> Void, report: @escaping (ListenerReport) -> Void
    ) throws(SystemError) {
        try start(on: loop, accept: { accept($0) }, report: report)
    }
}
