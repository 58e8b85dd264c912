package import BrokerModel
package import EpollLoop
package import Platform
package import Transports

/// Ties a connection of the core to its transport and its registration on the loop.
///
///     open ──► draining ──► closed
///
/// Draining: the core is done with it and the end of our stream is sent; what the peer still sends is read and dropped until it ends
/// its side, because a close with unread bytes resets the connection and the peer may lose our last packet. Belongs to one loop.
package final class Link: EventHandler {
    package let channel: any ByteChannel
    /// The channel, if it has layers: it may hold bytes, and have more to say while its socket is silent.
    let filtered: FilteredChannel?
    /// Whether the core knows what the layers have learned of the peer.
    var isIdentified: Bool
    package let id: ConnectionID
    /// The listener that accepted it.
    package var listener: Int { Int(listenerNumber) }
    private let listenerNumber: UInt32
    /// When it was attached, in microseconds of the turn's clock.
    let attachedAt: UInt64
    /// Not retained: the loop owns its links.
    private let loop: Unmanaged<ShardLoop>
    package private(set) var registration: Registration?
    /// What its connection wants to hear of.
    private var interest: Interest = .readable
    /// Whether it is not read from until other loops have caught up.
    private(set) var isParked = false
    /// Whether the peer has ended its side, or the transport has failed.
    package var hasEnded = false
    package var isDraining = false
    package var share = ReadShare()

    init(channel: any ByteChannel, id: ConnectionID, listener: Int, isIdentified: Bool, loop: ShardLoop) {
        self.channel = channel
        filtered = channel as? FilteredChannel
        self.id = id
        listenerNumber = UInt32(listener)
        self.isIdentified = isIdentified
        attachedAt = loop.turnBeganAt
        self.loop = Unmanaged.passUnretained(loop)
    }

    package func register(on events: EventLoop) throws(SystemError) {
        registration = try events.register(channel.fileDescriptor, for: granted, handler: self)
    }

    package func deregister(from events: EventLoop) {
        if let registration { events.deregister(registration) }
        registration = nil
    }

    func setInterest(_ wanted: Interest, on events: EventLoop) {
        guard wanted != interest else { return }
        interest = wanted
        apply(on: events)
    }

    func setParked(_ wanted: Bool, on events: EventLoop) {
        guard wanted != isParked else { return }
        isParked = wanted
        apply(on: events)
    }

    private func apply(on events: EventLoop) {
        if let registration { events.modify(registration, interest: granted) }
    }

    private var granted: Interest { isParked ? interest.subtracting(.readable) : interest }

    package func ready(_ events: ReadyEvents) { loop._withUnsafeGuaranteedRef { $0.ready(self, events) } }
}
