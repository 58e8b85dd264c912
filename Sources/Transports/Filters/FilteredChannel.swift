public import Bytes
internal import Glibc
internal import Platform

/// A socket with layers on top: PROXY header, TLS, WebSocket, in this order, as many as its listener asks for; or, of a
/// connection that we make, the way through a proxy, TLS and WebSocket.
///
/// ```
///            every layer open            shutdownSending, or refused
///   opening ──────────────────► open ──────────────────────────────► finished ──► closed
///      └──────────────────────────────────────────────────────────────▲
/// ```
/// opening: handshakes; nothing of the core's may be written. open: bytes both ways. finished: farewells are said, what
/// still comes is read and dropped.
///
/// A read takes everything that it got from the socket through all layers, so a layer never holds decoded bytes back;
/// only an end that came behind bytes waits for the next read (`hasMore`). What the socket does not take is held
/// (`holdsBytes`), and until it is gone nothing more is encoded: a stuck peer costs at most one write of 64 KiB and its
/// own answers.
///
/// Owned by one loop's thread at a time, whose workspace it borrows: set `workspace` when it moves.
public final class FilteredChannel: ByteChannel, @unchecked Sendable {
    private let socket: any ByteChannel
    /// From the socket upwards.
    private var filters: [any StreamFilter]
    public var workspace: FilterWorkspace
    private var held = HeldBytes()
    private var end: StreamEnd?
    /// How many layers, from the socket upwards, have said what they say first.
    private var begunCount = 0
    private var isFinished = false
    /// What the layers know of the peer; complete when `isOpen`.
    public private(set) var identity = PeerIdentity()
    public private(set) var isOpen = false

    init(socket: any ByteChannel, filters: [any StreamFilter], workspace: FilterWorkspace) {
        self.socket = socket
        self.filters = filters
        self.workspace = workspace
    }

    public var fileDescriptor: Int32 { socket.fileDescriptor }

    /// The other end; behind a proxy the client, once the header has come.
    public var peerAddress: PeerAddress { identity.forwardedAddress ?? socket.peerAddress }

    /// Whether bytes wait for the socket: it should be asked to tell when it is writable, and then be flushed.
    public var holdsBytes: Bool { !held.isEmpty }

    /// Whether a write that was refused waits for the peer's part of a handshake, and not for the socket.
    public var awaitsPeer: Bool { !isOpen && held.isEmpty }

    /// Whether a proxy that we connect through has not let us through yet.
    public var awaitsProxy: Bool { filters.first is ProxyTunnelFilter }

    /// Whether the next read says something though the socket may stay silent.
    public var hasMore: Bool { end != nil && !isFinished }

    public func close() { socket.close() }
}

// MARK: - Reading

extension FilteredChannel {
    /// Reads once and decodes. The buffer must hold at least 64 KiB.
    public func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        if isFinished { return socket.read(into: buffer) }
        if let end { return result(of: end) }
        if filters.isEmpty { return socket.read(into: buffer) }
        let limit = min(Limits.filteredReadBytesMax, buffer.count - 2 * Limits.filteredSlackBytes)
        precondition(limit > 0, "a filtered channel reads into 64 KiB or more")
        let room = UnsafeMutableRawBufferPointer(rebasing: workspace.input.room[..<limit])
        switch socket.read(into: room) {
        case .bytes(let count):
            return decoded(UnsafeRawBufferPointer(rebasing: room[..<count]), into: buffer)
        case .wouldBlock: return .wouldBlock
        case .endOfStream:
            return awaitsProxy ? .refused(FilterRefusal(.proxy, "closed the connection without an answer")) : .endOfStream
        case .refused(let refusal): return .refused(refusal)
        case .failed(let error): return .failed(error)
        }
    }

    /// Takes bytes through all layers.
    private func decoded(_ bytes: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        var source = bytes
        for index in filters.indices {
            let isLast = index == filters.count - 1
            let target = isLast ? buffer : (index & 1 == 0 ? workspace.stages.0 : workspace.stages.1).room
            workspace.reply.removeAll()
            let decoding = filters[index].decode(source, into: target, reply: workspace.reply)
            if !workspace.reply.isEmpty { answer(from: index) }
            if let ended = decoding.end, end == nil { end = ended }
            source = UnsafeRawBufferPointer(start: target.baseAddress, count: decoding.count)
            if source.isEmpty { break }
        }
        if let first = filters.first, first.isSpent {
            first.describe(&identity)
            filters.removeFirst()
            begunCount = max(0, begunCount - 1)
        }
        if !isOpen { checkOpening() }
        if !source.isEmpty { return .bytes(source.count) }
        guard let end else { return .wouldBlock }
        return result(of: end)
    }

    private func checkOpening() {
        beginLayers()
        guard filters.allSatisfy({ $0.isOpen }) else { return }
        isOpen = true
        for filter in filters { filter.describe(&identity) }
    }

    /// Lets each layer say what it says first, as soon as those below it are open.
    private func beginLayers() {
        while begunCount < filters.count, filters[..<begunCount].allSatisfy({ $0.isOpen }) {
            let index = begunCount
            begunCount += 1
            workspace.reply.removeAll()
            filters[index].begin(into: workspace.reply)
            if !workspace.reply.isEmpty { answer(from: index) }
        }
    }

    private func result(of end: StreamEnd) -> ReadResult {
        self.end = nil
        switch end {
        case .orderly:
            shutdownSending()
            return .endOfStream
        case .refused(let refusal): return .refused(refusal)
        }
    }

    /// Sends what the layer at `index` has put into `workspace.reply`.
    private func answer(from index: Int) {
        guard let last = encodeDownwards(workspace.reply, below: index) else { return }
        if held.count + last.count > Limits.unreadAnswerBytesMax {
            end = .refused(FilterRefusal(.webSocket, "the peer does not read what it asks for"))
            return
        }
        _ = transmit(last)
    }
}

// MARK: - Writing

extension FilteredChannel {
    /// Encodes and writes at most 64 KiB. `.wouldBlock` also while the layers' handshakes go on, which a client's first
    /// write begins.
    public func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult {
        if !isOpen { beginLayers() }
        let drained = flush()
        guard case .wrote = drained, isOpen, !isFinished else {
            if case .wrote = drained { return .wouldBlock }
            return drained
        }
        guard let top = filters.last else { return socket.write(slices) }
        return withUnsafeTemporaryAllocation(of: ByteSlice.self, capacity: slices.count) { head in
            let (count, bytes) = Self.copyHead(of: slices, into: head)
            let block = workspace.output.0
            block.removeAll()
            do throws(FilterRefusal) {
                try top.encode(UnsafeBufferPointer(start: head.baseAddress, count: count), into: block)
            } catch {
                return refused(error)
            }
            guard let last = encodeDownwards(block, below: filters.count - 1) else { return .wouldBlock }
            if let error = transmit(last) { return .failed(error) }
            return .wrote(bytes)
        }
    }

    /// Sends what is held. `.wrote` when nothing is left of it.
    @discardableResult
    public func flush() -> WriteResult {
        guard !held.isEmpty else { return .wrote(0) }
        let result = held.drain { socket.write($0) }
        if isFinished, held.isEmpty { socket.shutdownSending() }
        return result
    }

    public func shutdownSending() {
        guard !isFinished else { return }
        for index in filters.indices.reversed() where filters[...index].allSatisfy({ $0.isOpen }) {
            workspace.reply.removeAll()
            filters[index].finish(into: workspace.reply)
            guard !workspace.reply.isEmpty, let last = encodeDownwards(workspace.reply, below: index) else { continue }
            _ = transmit(last)
        }
        isFinished = true
        if held.isEmpty { socket.shutdownSending() }
    }

    /// Takes a block through the layers below `index`; nil when one of them refuses. The answer is the block or one of
    /// the outputs.
    private func encodeDownwards(_ block: ByteBlock, below index: Int) -> ByteBlock? {
        var current = block
        for lower in filters[..<index].reversed() {
            let next = current === workspace.output.0 ? workspace.output.1 : workspace.output.0
            next.removeAll()
            do throws(FilterRefusal) {
                try withUnsafePointer(to: current.slice) { (slice) throws(FilterRefusal) in
                    try lower.encode(UnsafeBufferPointer(start: slice, count: 1), into: next)
                }
            } catch {
                _ = refused(error)
                return nil
            }
            current = next
        }
        return current
    }

    /// Writes to the socket and holds what it does not take. An error is told by the next read too.
    private func transmit(_ block: ByteBlock) -> SystemError? {
        guard !block.isEmpty else { return nil }
        var taken = 0
        if held.isEmpty {
            switch withUnsafePointer(to: block.slice, { socket.write(UnsafeBufferPointer(start: $0, count: 1)) }) {
            case .wrote(let count): taken = count
            case .wouldBlock: break
            case .failed(let error): return error
            }
        }
        if taken < block.count { held.append(UnsafeRawBufferPointer(rebasing: block.bytes[taken...])) }
        return nil
    }

    /// A layer cannot send any more: the next read says so.
    private func refused(_ refusal: FilterRefusal) -> WriteResult {
        if end == nil { end = .refused(refusal) }
        return .failed(SystemError(errno: EPROTO, operation: "send"))
    }

    /// The first slices, cut to what one write takes. Returns how many they are, and their bytes.
    private static func copyHead(
        of slices: UnsafeBufferPointer<ByteSlice>, into head: UnsafeMutableBufferPointer<ByteSlice>
    ) -> (count: Int, bytes: Int) {
        var count = 0
        var left = Limits.filteredWriteBytesMax
        while count < slices.count, left > 0 {
            var slice = slices[count]
            slice.count = min(slice.count, left)
            head.initializeElement(at: count, to: slice)
            left &-= slice.count
            count &+= 1
        }
        return (count, Limits.filteredWriteBytesMax - left)
    }
}

/// Encoded bytes that the socket has not taken yet.
struct HeldBytes {
    private var bytes: [UInt8] = []
    private var offset = 0

    var isEmpty: Bool { offset == bytes.count }
    var count: Int { bytes.count - offset }

    mutating func append(_ more: UnsafeRawBufferPointer) {
        if offset > 0 { bytes.removeFirst(offset) }
        offset = 0
        bytes.append(contentsOf: more)
    }

    /// Calls `send` with all that is held until it takes nothing more, and forgets what it took.
    mutating func drain(_ send: (UnsafeBufferPointer<ByteSlice>) -> WriteResult) -> WriteResult {
        while !isEmpty {
            let result = bytes.withUnsafeBytes { raw in
                raw.baseAddress.map { base in
                    withUnsafePointer(to: ByteSlice(base: base + offset, count: raw.count - offset)) {
                        send(UnsafeBufferPointer(start: $0, count: 1))
                    }
                } ?? .wouldBlock
            }
            guard case .wrote(let taken) = result else { return result }
            offset += taken
        }
        bytes = []
        offset = 0
        return .wrote(0)
    }
}

/// A layer between a socket and the broker's core: it decodes what comes in and encodes what goes out. Never blocks,
/// owns no socket.
///
/// ```
///   socket ─► PROXY ─► TLS ─► WebSocket ─► core          decode, upwards
///   socket ◄─ PROXY ◄─ TLS ◄─ WebSocket ◄─ core          encode, downwards
/// ```
/// Called once per read and once per write of a connection, so an existential costs nothing that counts. A connection
/// without layers has none: its channel is the socket itself.
protocol StreamFilter: AnyObject {
    /// Puts onto the end of `target` what this side says before it has heard anything: a client's handshake. Called
    /// once, when the layers below are open.
    func begin(into target: ByteBlock)

    /// Decodes everything in `source`, whatever its alignment, into the front of `target`.
    ///
    /// - Parameters:
    ///   - target: holds at least as much as `source` and `Limits.filteredSlackBytes`.
    ///   - reply: gets what this layer itself has to say to its peer, encoded by this layer.
    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding

    /// Encodes all of the slices onto the end of `target`. Only to be called when `isOpen`.
    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) throws(FilterRefusal)

    /// Puts this layer's farewell onto the end of `target`; nothing when it has none to give now.
    func finish(into target: ByteBlock)

    /// Whether the peer has done what this layer demands first: bytes may be sent, and its part of the identity is
    /// known.
    var isOpen: Bool { get }

    /// Whether this layer has done its work and may be left out.
    var isSpent: Bool { get }

    /// Writes down what this layer knows of the peer. Called when it is open.
    func describe(_ identity: inout PeerIdentity)
}

extension StreamFilter {
    func begin(into target: ByteBlock) {}

    var isSpent: Bool { false }
}

/// What the layers of a connection know of its other end.
public struct PeerIdentity: Sendable, Equatable {
    /// The common name in its certificate, which was verified.
    public var certificateCommonName: String?
    /// The whole subject of its certificate, as RFC 2253 writes it.
    public var certificateSubject: String?
    /// All names of that certificate.
    public var certificate: CertificateNames?
    /// The identity of the pre-shared key that it knows.
    public var preSharedKeyIdentity: String?
    /// Version and cipher of its TLS, such as `TLSv1.3 cipher TLS_AES_256_GCM_SHA384`.
    public var encryption: String?
    /// Its address, if a proxy in front has told it.
    public var forwardedAddress: PeerAddress?
    /// The path of its Unix socket, if a proxy in front has told one.
    public var forwardedPath: String?

    public init() {}
}

/// The peer broke the protocol of a layer below MQTT, or that layer did not let it in.
public struct FilterRefusal: Error, Sendable, Equatable {
    public enum Layer: String, Sendable {
        case proxyProtocol = "PROXY protocol"
        /// A proxy that we connect through; the reason is the end of a sentence about it.
        case proxy
        case tls = "TLS"
        case webSocket = "WebSocket"
    }

    public let layer: Layer
    /// The reason, as a part of a sentence.
    public let reason: String
    /// Whether it is about who the peer is, such as its certificate.
    public let isOfLogin: Bool

    init(_ layer: Layer, _ reason: String, isOfLogin: Bool = false) {
        self.layer = layer
        self.reason = reason
        self.isOfLogin = isOfLogin
    }
}

extension FilterRefusal: CustomStringConvertible {
    /// `TLS: certificate verify failed`.
    public var description: String { layer == .proxy ? "the proxy \(reason)" : "\(layer.rawValue): \(reason)" }
}

/// What a layer made of the bytes that it was given.
struct Decoding {
    /// How many bytes it put into the target.
    var count = 0
    /// The end of the stream, after those bytes.
    var end: StreamEnd?
}

/// Why nothing more comes out of a layer.
enum StreamEnd {
    /// The peer said goodbye.
    case orderly
    /// The peer broke the layer's protocol, or was not let in.
    case refused(FilterRefusal)
}

extension Limits {
    /// Bytes that one write takes through layers; the rest waits in the core, where it is counted.
    static let filteredWriteBytesMax = 64 << 10

    /// Bytes of a layer's own answers that may wait for a peer that does not read them; beyond them the connection
    /// ends.
    static let unreadAnswerBytesMax = 256 << 10
}
