internal import Bytes
internal import Glibc
internal import Platform

/// A connection whose caller waits for it: for a command that asks a question and ends.
public struct BlockingChannel {
    /// Why it does not go on, as the end of a sentence about the peer.
    public struct Failure: Error {
        public let reason: String
        /// The deadline has passed.
        public let isLate: Bool

        public init(_ reason: String, isLate: Bool = false) { (self.reason, self.isLate) = (reason, isLate) }
    }

    private let channel: any ByteChannel
    /// The channel, if it has layers.
    private let filtered: FilteredChannel?
    private var hasBegun = false

    /// Begins to connect.
    public init(to address: SocketAddress, _ layers: ClientLayers) throws(Failure) {
        do throws(SystemError) {
            channel = try layers.connecting(to: address, workspace: FilterWorkspace())
        } catch {
            throw Failure(error.reason)
        }
        filtered = channel as? FilteredChannel
    }

    /// Waits until the peer has something for us or takes something, once, and does both.
    ///
    /// - Parameters:
    ///   - output: what is to be sent; what was sent is taken off.
    ///   - deadline: in milliseconds of the monotonic clock.
    /// - Returns: what has come, maybe nothing; nil when the peer has ended the stream.
    public mutating func exchange(_ output: inout ArraySlice<UInt8>, deadline: UInt64) throws(Failure) -> [UInt8]? {
        try waitForPeer(wantsToWrite: !output.isEmpty, deadline: deadline)
        filtered?.flush()
        if !output.isEmpty { try write(&output) }
        return try read()
    }

    /// Sends what the channel takes now.
    public func write(_ output: inout ArraySlice<UInt8>) throws(Failure) {
        let result = output.withUnsafeBytes { bytes -> WriteResult in
            guard let base = bytes.baseAddress else { return .wouldBlock }
            return withUnsafePointer(to: ByteSlice(base: base, count: bytes.count)) {
                channel.write(UnsafeBufferPointer(start: $0, count: 1))
            }
        }
        switch result {
        case .wrote(let count): output = output.dropFirst(count)
        case .wouldBlock: return
        case .failed(let error): throw Failure(error.reason)
        }
    }

    public func shutdownSending() { channel.shutdownSending() }

    public func close() { channel.close() }

    /// Waits until the socket has something for us, or room.
    private mutating func waitForPeer(wantsToWrite: Bool, deadline: UInt64) throws(Failure) {
        var entry = pollfd(fd: channel.fileDescriptor, events: Int16(POLLIN), revents: 0)
        // The peer's part of a handshake comes as bytes to read; a socket with room would only wake us again and again. The first write
        // begins it.
        let awaitsPeer = hasBegun && filtered?.awaitsPeer == true
        if filtered?.holdsBytes == true || wantsToWrite && !awaitsPeer { entry.events |= Int16(POLLOUT) }
        hasBegun = true
        let now = MonotonicClock.milliseconds()
        guard now < deadline, poll(&entry, 1, Int32(clamping: deadline - now)) != 0 else {
            throw Failure("it does not answer in time", isLate: true)
        }
    }

    private func read() throws(Failure) -> [UInt8]? {
        var chunk: [UInt8] = []
        let result = withUnsafeTemporaryAllocation(byteCount: Self.readBytes, alignment: 16) { buffer in
            let result = channel.read(into: buffer)
            if case .bytes(let count) = result { chunk = Array(buffer[..<count]) }
            return result
        }
        switch result {
        case .bytes, .wouldBlock: return chunk
        case .endOfStream: return nil
        case .refused(let refusal): throw Failure("\(refusal)")
        case .failed(let error): throw Failure(error.reason)
        }
    }

    /// What a channel with layers wants at least.
    private static let readBytes = 64 << 10
}
