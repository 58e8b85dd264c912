import BrokerModel
import MQTTCodec

/// Messages of one topic and QoS 1 or 2, in a row: each of their receivers gets all of them with one copy.
///
/// ```
///     a block for each protocol:  [ PUBLISH 1 ][ PUBLISH 2 ] … [ PUBLISH n ]     without packet identifiers
///                                 ↑ ends[0]    ↑ ends[1]                 ↑ ends[n]
/// ```
/// Short, so that a block stays in the nearest cache while it is copied from.
struct FrameBatch: ~Copyable {
    /// The frames of the batch in one protocol. Valid until the batch is emptied.
    struct Block {
        fileprivate let start: UnsafeRawPointer
        /// Where the frames end, behind a first 0.
        fileprivate let ends: UnsafePointer<Int>
        /// Where the packet identifiers go.
        fileprivate let identifiers: UnsafePointer<Int>

        /// The bytes of the first `count` frames.
        @inline(__always)
        func byteCount(ofFirst count: Int) -> Int { ends[count] }

        /// Copies the first `count` frames; `target` has room for them.
        @inline(__always)
        func copy(first count: Int, to target: UnsafeMutableRawPointer) {
            target.copyMemory(from: start, byteCount: ends[count])
        }

        /// Puts a packet identifier into a copy.
        @inline(__always)
        func number(_ index: Int, _ packetIdentifier: UInt16, in copy: UnsafeMutableRawPointer) {
            copy.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: identifiers[index], as: UInt16.self)
        }
    }

    private struct Encoding: ~Copyable {
        var memory = ScratchMemory()
        let ends = UnsafeMutablePointer<Int>.allocate(capacity: Limits.frameBatchMessagesMax + 1)
        let identifiers = UnsafeMutablePointer<Int>.allocate(capacity: Limits.frameBatchMessagesMax)
        var block: Block?

        deinit {
            ends.deallocate()
            identifiers.deallocate()
        }
    }

    /// The matches of the batch's topic; nil while the batch is empty.
    private(set) var matches: Reference<Matches>?
    private(set) var qos = QoS.atLeastOnce
    private(set) var count = 0
    private var byteCount = 0
    /// The first `count` are there.
    private let publications = UnsafeMutablePointer<Publication>.allocate(capacity: Limits.frameBatchMessagesMax)
    /// Theirs, which they retain.
    private let messages = UnsafeMutablePointer<Reference<Message>>.allocate(capacity: Limits.frameBatchMessagesMax)
    private var encoding3 = Encoding()
    private var encoding5 = Encoding()

    deinit {
        publications.deinitialize(count: count)
        publications.deallocate()
        messages.deallocate()
    }

    var isEmpty: Bool { count == 0 }
    var isFull: Bool { count == Limits.frameBatchMessagesMax || byteCount >= Limits.frameBatchBytesMax }

    /// Whether a message of this topic and QoS may follow.
    @inline(__always)
    func takes(_ topic: UnsafeRawBufferPointer, _ qos: QoS?) -> Bool {
        let own = publications[0].topic
        guard self.qos == qos, own.count == topic.count, let left = own.baseAddress, let right = topic.baseAddress else {
            return false
        }
        return MemoryComparison.equal(left, right, count: topic.count)
    }

    /// Adds a message, whose topic and QoS are those of the ones before, for matches that are theirs too.
    mutating func append(_ message: Message, mustArrive: Bool, for matches: Matches) {
        if count == 0 {
            self.matches = Reference(matches)
            qos = message.qos
        }
        (publications + count).initialize(to: Publication(message))
        (messages + count).initialize(to: Reference(message))
        publications[count].receiverCount = matches.routeCount
        publications[count].hasManyReceivers = true
        publications[count].mustArrive = mustArrive
        count &+= 1
        byteCount &+= message.byteCount
    }

    subscript(index: Int) -> UnsafeMutablePointer<Publication> {
        @inline(__always) get { publications + index }
    }

    /// The message, held for one entry more.
    @inline(__always)
    func hold(_ index: Int) -> Reference<Message> { messages[index].with { $0.hold() } }

    /// The frames for a protocol, made when its first receiver needs them.
    @inline(__always)
    mutating func block(_ kind: Connection.FrameKind, now: UInt64) -> Block {
        if kind == .shared5 {
            if let block = encoding5.block { return block }
            return Self.encode(publications, count, .shared5, now, &encoding5)
        }
        if let block = encoding3.block { return block }
        return Self.encode(publications, count, .shared3, now, &encoding3)
    }

    /// The messages' memory is the caller's to give back, with `finish`, before this.
    mutating func removeAll() {
        publications.deinitialize(count: count)
        (matches, count, byteCount) = (nil, 0, 0)
        (encoding3.block, encoding5.block) = (nil, nil)
    }

    private static func encode(
        _ publications: UnsafeMutablePointer<Publication>, _ count: Int, _ kind: Connection.FrameKind, _ now: UInt64,
        _ encoding: inout Encoding
    ) -> Block {
        encoding.ends[0] = 0
        for index in 0..<count {
            let frame = frame(publications[index], kind, now)
            let end = encoding.ends[index] &+ frame.size(publications[index])
            encoding.ends[index &+ 1] = end
            encoding.identifiers[index] = encoding.ends[index] &+ frame.packetIdentifierOffset(publications[index])
        }
        let memory = encoding.memory.reserve(encoding.ends[count])
        for index in 0..<count {
            frame(publications[index], kind, now).write(publications[index], to: memory + encoding.ends[index])
        }
        let block = Block(
            start: UnsafeRawPointer(memory), ends: UnsafePointer(encoding.ends), identifiers: UnsafePointer(encoding.identifiers))
        encoding.block = block
        return block
    }

    private static func frame(
        _ publication: borrowing Publication, _ kind: Connection.FrameKind, _ now: UInt64
    ) -> PlainPublishFrame {
        PlainPublishFrame(
            kind, qos: publication.qos, retain: false,
            expirySeconds: Message.expirySeconds(until: publication.expiresAt, now: now))
    }
}
