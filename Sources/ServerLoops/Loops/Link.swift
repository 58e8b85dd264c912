package import BrokerModel
import Bytes
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
    /// What it counts for among the connections of its address; nil where these are not counted.
    var addressSlot: AddressSlot?
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
    var handshake = HandshakeStage.fresh
    package var share = ReadShare()

    init(
        channel: any ByteChannel, id: ConnectionID, listener: Int, addressSlot: AddressSlot?, isIdentified: Bool, loop: ShardLoop
    ) {
        self.addressSlot = addressSlot
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
    var handshakes = HandshakeQueue()
    /// Those that the core is done with, and until when their peers may take to end their side, in milliseconds.
    var draining: [(link: Link, deadline: UInt64)] = []

    /// Whether the loop must come back to some of them at once.
    var areUrgent: Bool { !again.isEmpty || handshakes.isUrgent || !ending.isEmpty }
}

/// How far a connection's TLS handshake is.
enum HandshakeStage: UInt8 {
    /// Nothing of it was read.
    case fresh
    /// It has one of the slots.
    case active
    /// It had one, and its client let it wait for so long that others have it.
    case late
    /// It is over, well or not.
    case over
}

/// The TLS handshakes of a loop: which one computes next, so that a storm of them neither holds up those who are
/// connected nor spends all time on handshakes that nobody waits for any more.
///
///     fresh ──► [newcomers, in the order in which they came] ──► active ──► over
///                                                                  └──► late ──► over
///
/// So many are active at a time; what they have to compute comes before newcomers, who have cost nothing yet. Each turn
/// makes a few steps. A client that does not answer gives its slot up after a second, or whoever connects and is
/// silent would keep others out. Links that are gone stay in the queues until their turn comes.
struct HandshakeQueue {
    /// Those that have begun and have something to compute.
    private var continuing = Deque<Link>()
    /// Those whose clients have begun to speak, and that have no slot yet.
    private var newcomers = Deque<Link>()
    /// Who was given a slot, and until when it is kept, in milliseconds.
    private var slots = Deque<(link: Link, until: UInt64)>()
    private var slotsMax = Int.max
    private var stepsLeft = 0
    /// How many have a slot.
    private(set) var activeCount = 0
    /// How many wait for one.
    var waitingCount: Int { newcomers.count }

    /// Whether the loop must come back at once.
    var isUrgent: Bool { !continuing.isEmpty || (!newcomers.isEmpty && activeCount < slotsMax) }

    /// When somebody who waits may get the slot of a client that does not answer, in milliseconds; nil for never.
    var nextDeadline: UInt64? { newcomers.isEmpty ? nil : slots.first?.until }

    /// A turn may make its steps. `now` in milliseconds.
    mutating func beginTurn(now: UInt64, slotsMax: Int) {
        (stepsLeft, self.slotsMax) = (Limits.handshakesPerTurn, slotsMax)
        while let first = slots.first, first.link.handshake != .active || first.until <= now {
            _ = slots.popFirst()
            guard first.link.handshake == .active else { continue }
            first.link.handshake = .late
            activeCount -= 1
        }
    }

    /// Whether a link's handshake may go on now; else it stands in a queue from now on.
    mutating func mayStep(_ link: Link, now: UInt64) -> Bool {
        guard link.handshake == .fresh else {
            guard stepsLeft == 0 || !continuing.isEmpty else {
                stepsLeft -= 1
                return true
            }
            continuing.append(link)
            return false
        }
        guard stepsLeft == 0 || !continuing.isEmpty || !newcomers.isEmpty || activeCount >= slotsMax else {
            stepsLeft -= 1
            giveSlot(to: link, now: now)
            return true
        }
        newcomers.append(link)
        return false
    }

    /// Takes out the link whose turn it is; nil when nobody's is. `now` in milliseconds.
    ///
    /// - Parameter isThere: whether a link is open still.
    mutating func takeNext(now: UInt64, isThere: (Link) -> Bool) -> Link? {
        while stepsLeft > 0 {
            guard let link = continuing.popFirst() ?? (activeCount < slotsMax ? newcomers.popFirst() : nil) else { return nil }
            guard isThere(link) else { continue }
            stepsLeft -= 1
            if link.handshake == .fresh { giveSlot(to: link, now: now) }
            return link
        }
        return nil
    }

    /// A link's handshake is over, or the link is gone.
    mutating func ended(_ link: Link) {
        if link.handshake == .active { activeCount -= 1 }
        link.handshake = .over
    }

    private mutating func giveSlot(to link: Link, now: UInt64) {
        link.handshake = .active
        activeCount += 1
        slots.append((link, now + Limits.handshakeSlotMilliseconds))
    }
}

extension Limits {
    /// How long a handshake keeps its slot while its client lets it wait, in milliseconds.
    static let handshakeSlotMilliseconds: UInt64 = 1000

    /// Steps of TLS handshakes, each up to a millisecond of work, that a loop makes in a turn; others wait for the next
    /// one, after everybody else.
    static let handshakesPerTurn = 4
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
