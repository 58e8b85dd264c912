import Bytes

@testable import Transports

/// Feeds a layer bytes in pieces, and collects what comes out of it on both sides.
final class FilterDriver {
    let filter: any StreamFilter
    private(set) var decoded: [UInt8] = []
    private(set) var replies: [UInt8] = []
    private(set) var end: StreamEnd?
    private let target = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)

    init(_ filter: any StreamFilter) {
        self.filter = filter
    }

    deinit {
        target.deallocate()
    }

    /// Gives the layer one piece; nothing once it has ended.
    func receive(_ bytes: some Collection<UInt8>) {
        guard end == nil, !bytes.isEmpty else { return }
        let reply = ByteBlock(capacity: 16)
        Array(bytes).withUnsafeBytes { source in
            let decoding = filter.decode(source, into: target, reply: reply)
            decoded += target[..<decoding.count]
            end = decoding.end
        }
        replies += reply.bytes
    }

    /// Encodes runs of bytes as one write does.
    func send(_ runs: [[UInt8]]) throws -> [UInt8] {
        let block = ByteBlock(capacity: 16)
        let copies = runs.map { run in
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, run.count), alignment: 1)
            copy.copyBytes(from: run)
            return copy
        }
        defer { copies.forEach { $0.deallocate() } }
        let slices = zip(copies, runs).compactMap { copy, run in
            copy.baseAddress.map { ByteSlice(base: UnsafeRawPointer($0), count: run.count) }
        }
        try slices.withUnsafeBufferPointer { try filter.encode($0, into: block) }
        return Array(block.bytes)
    }

    /// Lets the layer say what it says first.
    func begin() {
        let block = ByteBlock(capacity: 16)
        filter.begin(into: block)
        replies += block.bytes
    }

    /// Lets two ends of a layer talk, `piece` bytes at a time, until neither has anything more to say.
    static func converse(_ client: FilterDriver, _ server: FilterDriver, piece: Int = .max) {
        client.begin()
        var told = (client: 0, server: 0)
        while told.client < client.replies.count || told.server < server.replies.count {
            let toServer = client.replies[told.client...].prefix(piece)
            told.client += toServer.count
            server.receive(toServer)
            let toClient = server.replies[told.server...].prefix(piece)
            told.server += toClient.count
            client.receive(toClient)
        }
    }

    func finish() -> [UInt8] {
        let block = ByteBlock(capacity: 16)
        filter.finish(into: block)
        return Array(block.bytes)
    }

    /// Why the layer refused the peer, nil when it did not.
    var refusal: String? {
        if case .refused(let refusal) = end { refusal.reason } else { nil }
    }

    var hasEndedInOrder: Bool {
        if case .orderly = end { true } else { false }
    }
}

/// Every way of cutting a sequence in two, the whole of it among them.
func splits(_ bytes: [UInt8]) -> [(ArraySlice<UInt8>, ArraySlice<UInt8>)] {
    (0..<bytes.count).map { (bytes[..<$0], bytes[$0...]) }
}
