package import BrokerModel
package import Platform
package import Transports

/// Ties a connection of the core to its transport and its registration on the loop.
///
///     open ──► draining ──► closed
///
/// Draining: the core is done with it and the end of our stream is sent; what the peer still sends is read and dropped
/// until it ends its side, because a close with unread bytes resets the connection and the peer may lose our last
/// packet. Belongs to one loop.
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
        attachedAt = loop.turn.beganAt
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

/// The links of a loop that something is still to be done with, in the order in which they came.
struct LinkQueues {
    /// Those whose channel has more to say while its socket is silent.
    var again: [Link] = []
    /// Those that have much to say, and wait until the loop is no longer ahead of another one, or that time has come,
    /// in milliseconds.
    var parked: [Link] = []
    var parkedUntil: UInt64 = 0
    /// Those whose peers have gone, which the core does not know yet, and of how many it may still hear in this turn.
    var ending: [Link] = []
    var endsLeft = 0
    /// Those in whose TLS handshake there is something to compute, and how many steps of handshakes this turn may still
    /// make.
    var handshaking: [Link] = []
    var handshakesLeft = 0
    /// Those that the core is done with, and until when their peers may take to end their side, in milliseconds.
    var draining: [(link: Link, deadline: UInt64)] = []

    /// Whether the loop must come back to some of them at once.
    var areUrgent: Bool { !again.isEmpty || !handshaking.isEmpty || !ending.isEmpty }
}

/// How much one connection may bring into a turn, so that a client that floods the broker does not make turns long for
/// the others.
///
/// Messages with many receivers gain from long turns: the more come together, the fewer writes. Messages with few do
/// not, for a write carries hundreds of them as it is. So a connection whose messages have few receivers is read from
/// once a turn, and no more at a time than about `messagesMax` of its messages have needed; nothing of that touches one
/// that sends little.
///
/// Of the others, those whose last read was shard messages for other loops may be parked until these have worked it
/// off.
package struct ReadShare {
    /// What one read may take.
    private var readBytesMax = UInt32.max
    /// The turn in which the share was spent.
    private var spentTurn = UInt32.max
    /// Whether the last read brought much, and shard messages for other loops with it, and the next may bring more.
    private(set) var isBulk = false

    /// How many bytes may be read in this turn; 0: others first. The rest waits in the socket, where it slows the
    /// sender down.
    package func bytes(of scratch: Int, turn: UInt32) -> Int {
        spentTurn == turn ? 0 : min(scratch, Int(readBytesMax))
    }

    /// Whether a read of that many bytes is worth a look at what comes of it: `record` then, `markLittle` if not.
    static func isNotable(_ byteCount: Int) -> Bool { byteCount >= notableBytes }

    mutating func markLittle() { isBulk = false }

    /// Records what one read came to: packets received, and messages sent and bytes of shard messages made because of
    /// them.
    package mutating func record(byteCount: Int, received: UInt64, sent: UInt64, shardMessageBytes: Int, turn: UInt32) {
        guard received > 0, sent <= received * Self.fewReceivers else {
            readBytesMax = .max
            isBulk = shardMessageBytes > 0
            return
        }
        isBulk = false
        readBytesMax = UInt32(clamping: max(Self.notableBytes, byteCount * Limits.messagesPerRead / Int(received)))
        if received >= Self.spentMessages { spentTurn = turn }
    }

    private static let notableBytes = 4096
    /// A read that is cut to `messagesMax` may come to a few less.
    private static let spentMessages = 192
    private static let fewReceivers: UInt64 = 4
}
