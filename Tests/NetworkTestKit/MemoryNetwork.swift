package import Platform
internal import Testing
package import Transports

/// Something that a simulated loop can wait for.
package protocol Pollable: AnyObject {
    /// What it is ready for now.
    var readiness: ReadyEvents { get }
}

/// The descriptors, the connections and the clock of a simulated machine. All on one thread.
package final class MemoryNetwork: @unchecked Sendable {
    /// The monotonic clock, in milliseconds. It stands still unless somebody sets it.
    package var now: UInt64 = 1_000_000
    /// Every connection that was ever made, oldest first.
    package private(set) var channels: [MemoryChannel] = []
    private var open: [Int32: any Pollable] = [:]
    /// By which poller a descriptor is watched.
    private var watched: [Int32: ObjectIdentifier] = [:]
    /// Numbers that no descriptor of the test's process has.
    private var lastDescriptor: Int32 = 1_000_000

    package init() {}

    /// Gives a new descriptor.
    package func add(_ pollable: any Pollable) -> Int32 {
        lastDescriptor += 1
        open[lastDescriptor] = pollable
        return lastDescriptor
    }

    package func makeChannel(peerAddress: PeerAddress = PeerAddress(host: "192.0.2.7") ?? .local) -> MemoryChannel {
        let channel = MemoryChannel(network: self, peerAddress: peerAddress)
        channels.append(channel)
        return channel
    }

    /// The descriptor means nothing from now on. It must not be watched any more, else an event could reach a stranger.
    package func close(_ descriptor: Int32) {
        if watched[descriptor] != nil { Issue.record("descriptor \(descriptor) was closed while a loop watched it") }
        open[descriptor] = nil
    }

    package func watch(_ descriptor: Int32, by poller: SimulatedPoller) {
        if open[descriptor] == nil { Issue.record("descriptor \(descriptor) is closed, and a loop wants to watch it") }
        if watched[descriptor] != nil { Issue.record("descriptor \(descriptor) is watched twice") }
        watched[descriptor] = ObjectIdentifier(poller)
    }

    package func unwatch(_ descriptor: Int32, by poller: SimulatedPoller) {
        if watched[descriptor] != ObjectIdentifier(poller) { Issue.record("descriptor \(descriptor) was not watched here") }
        watched[descriptor] = nil
    }

    package func readiness(of descriptor: Int32) -> ReadyEvents { open[descriptor]?.readiness ?? [] }

    /// How many descriptors are open.
    package var openCount: Int { open.count }
}
