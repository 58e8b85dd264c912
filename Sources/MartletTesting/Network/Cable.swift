internal import BrokerSimulation
internal import Bytes
internal import Glibc
internal import Platform
internal import Transports

/// Bytes on their way in one direction, in order.
struct CableLane {
    private var chunks: [(arrival: UInt64, bytes: [UInt8])] = []
    private var lastArrival: UInt64 = 0
    /// Bytes under way.
    private(set) var count = 0
    /// Bytes that have arrived.
    private(set) var arrivedCount = 0
    /// After how many of these the connection breaks; nil for never.
    var breaksAfter: Int?

    var isEmpty: Bool { chunks.isEmpty }

    mutating func send(_ bytes: [UInt8], arrival: UInt64) {
        lastArrival = max(lastArrival, arrival)
        chunks.append((lastArrival, bytes))
        count += bytes.count
    }

    /// When the next bytes arrive.
    var nextArrival: UInt64? { chunks.first?.arrival }

    /// Takes what has arrived; `breaks` is set when the rest never does.
    mutating func take(now: UInt64, _ breaks: inout Bool) -> [UInt8] {
        guard let first = chunks.first, first.arrival <= now else { return [] }
        chunks.removeFirst()
        var bytes = first.bytes
        if let most = breaksAfter, arrivedCount + bytes.count >= most {
            bytes = Array(bytes.prefix(max(0, most - arrivedCount)))
            breaks = true
        }
        count -= first.bytes.count
        arrivedCount += bytes.count
        return bytes
    }
}

/// A network connection between a simulated client and a broker. On the simulation's thread.
final class Cable {
    let client: CableEnd
    /// The broker's end.
    private let server: SimulatedConnection
    private(set) var toServer = CableLane()
    private(set) var toClient = CableLane()
    /// Nothing arrives, and nobody is told.
    var isStalled = false
    private(set) var isOver = false
    /// Whether the broker has heard of the client's end.
    private var hasEnded = false
    private let kernel: SimulatedKernel
    private var random: SeededGenerator
    /// Faults of the network now.
    var faults: NetworkFaults
    /// Sees what the client sends and what comes to it.
    var tap: ((_ isFromClient: Bool, [UInt8]) -> Void)?

    init(_ kernel: SimulatedKernel, server: SimulatedConnection, faults: NetworkFaults, seed: UInt64) {
        (self.kernel, self.server, self.faults) = (kernel, server, faults)
        random = SeededGenerator(seed: seed)
        client = CableEnd(kernel)
        client.cable = self
        toServer.breaksAfter = faults.cut(&random)
        toClient.breaksAfter = faults.cut(&random)
    }

    /// What the client may write now.
    var room: Int { max(0, Self.windowBytes - toServer.count) }

    /// The client writes. Returns how many bytes were taken.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        var count = min(room, bytes.count)
        if count > 1, faults.splits, random.oneIn(3) { count = Int.random(in: 1...count, using: &random) }
        if count > 0 {
            tap?(true, Array(bytes[..<count]))
            toServer.send(Array(bytes[..<count]), arrival: arrival)
        }
        return count
    }

    /// How much of what is there one read brings.
    func readCount(_ available: Int) -> Int {
        faults.splits && random.oneIn(3) ? Int.random(in: 1...available, using: &random) : available
    }

    func cut(afterSending bytes: Int) { toServer.breaksAfter = toServer.arrivedCount + toServer.count + bytes }

    func cut(afterReceiving bytes: Int) { toClient.breaksAfter = toClient.arrivedCount + toClient.count + bytes }

    func mend() {
        (toServer.breaksAfter, toClient.breaksAfter) = (nil, nil)
        isStalled = false
    }

    /// Whether something is to be moved at this time.
    func isDue(_ now: UInt64) -> Bool {
        guard !isOver else { return false }
        if !server.receivedBytes.isEmpty || server.isReading != mayReceive { return true }
        if isStalled { return false }
        let isToEnd =
            (client.isClosed && toServer.isEmpty && !hasEnded) || (server.isClosed && toClient.isEmpty && !client.hasEnded)
        return isToEnd || (nextArrival ?? .max) <= now
    }

    /// When something arrives next.
    var nextArrival: UInt64? { isOver || isStalled ? nil : [toServer.nextArrival, toClient.nextArrival].compactMap(\.self).min() }

    /// Takes from both ends and gives to them what is due.
    func move(now: UInt64) {
        let sent = server.takeBytes()
        if !sent.isEmpty { toClient.send(sent, arrival: arrival) }
        if server.isReading != mayReceive { server.isReading = mayReceive }
        if isStalled { return }
        var breaks = false
        server.send(toServer.take(now: now, &breaks))
        if !breaks {
            let received = toClient.take(now: now, &breaks)
            if !received.isEmpty { tap?(false, received) }
            client.receive(received)
        }
        if breaks { return breakOff() }
        if client.isClosed, toServer.isEmpty, !hasEnded {
            hasEnded = true
            server.close()
        }
        if server.isClosed, toClient.isEmpty, server.receivedBytes.isEmpty { client.end() }
        isOver = client.isClosed && (hasEnded || server.isClosed)
    }

    /// The connection breaks: both ends hear of it, and what is under way is lost.
    func breakOff() {
        guard !isOver else { return }
        isOver = true
        server.close()
        client.fail()
    }

    private var mayReceive: Bool { toClient.count + client.unreadCount < Self.windowBytes }

    private var arrival: UInt64 { kernel.time.now + faults.delay(&random) }

    /// Bytes that a direction holds.
    private static let windowBytes = 64 * 1024
}

/// What a simulated network does to connections, and how slow disks are.
public struct NetworkFaults: Sendable {
    /// How long bytes are under way, in whole milliseconds, each piece by chance.
    public var delay: ClosedRange<Duration> {
        get { delayMilliseconds.durations }
        set { delayMilliseconds = newValue.wholeMilliseconds }
    }
    /// Whether writes and reads bring less than there is.
    public var splits = false
    /// One connection in so many breaks, at a byte that chance chooses; nil for none.
    public var breaksOneIn: Int?
    /// The latest byte at which it breaks.
    public var breakBytesMax = 4000

    /// How long a disk takes for a commit, in whole milliseconds, each by chance.
    public var commitDelay: ClosedRange<Duration> {
        get { commitMilliseconds.durations }
        set { commitMilliseconds = newValue.wholeMilliseconds }
    }

    package var delayMilliseconds: ClosedRange<UInt64> = 1...1
    package var commitMilliseconds: ClosedRange<UInt64> = 0...0

    /// A network without faults.
    public init() {}

    /// Delays up to a fifth of a second, small pieces, connections half of which break, and slow disks.
    public static var rough: NetworkFaults {
        var faults = NetworkFaults()
        (faults.delayMilliseconds, faults.splits, faults.breaksOneIn, faults.commitMilliseconds) = (0...200, true, 2, 0...300)
        return faults
    }

    func delay(_ random: inout SeededGenerator) -> UInt64 { UInt64.random(in: delayMilliseconds, using: &random) }

    func cut(_ random: inout SeededGenerator) -> Int? {
        guard let breaksOneIn, random.oneIn(breaksOneIn) else { return nil }
        return Int.random(in: 0...max(0, breakBytesMax), using: &random)
    }
}

extension ClosedRange<UInt64> {
    fileprivate var durations: ClosedRange<Duration> { .milliseconds(lowerBound) ... .milliseconds(upperBound) }
}

extension ClosedRange<Duration> {
    fileprivate var wholeMilliseconds: ClosedRange<UInt64> { lowerBound.wholeMilliseconds...upperBound.wholeMilliseconds }
}

/// The client's end of a cable. On the simulation's thread, hence unchecked.
final class CableEnd: ByteChannel, @unchecked Sendable {
    private let kernel: SimulatedKernel
    private(set) lazy var fileDescriptor: Int32 = kernel.add(self)
    let peerAddress = PeerAddress.local
    fileprivate(set) weak var cable: Cable?
    private var incoming: [UInt8] = []
    private var isBroken = false
    private(set) var hasEnded = false
    /// Whether nothing more is sent.
    private(set) var isClosed = false

    init(_ kernel: SimulatedKernel) { self.kernel = kernel }

    var unreadCount: Int { incoming.count }

    func receive(_ bytes: [UInt8]) { incoming += bytes }

    func end() { hasEnded = true }

    func fail() {
        isBroken = true
        incoming = []
    }

    var readiness: ReadyEvents {
        if isBroken { return [.readable, .writable, .error, .hangUp] }
        var ready: ReadyEvents = []
        if !incoming.isEmpty || hasEnded { ready.insert(.readable) }
        if let cable, cable.room > 0 { ready.insert(.writable) }
        return ready
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        if isBroken { return .failed(SystemError(errno: ECONNRESET, operation: "recv")) }
        if incoming.isEmpty { return hasEnded ? .endOfStream : .wouldBlock }
        let count = min(cable?.readCount(incoming.count) ?? incoming.count, buffer.count)
        buffer.copyBytes(from: incoming[..<count])
        incoming.removeFirst(count)
        return .bytes(count)
    }

    func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult {
        if isBroken || isClosed { return .failed(SystemError(errno: EPIPE, operation: "send")) }
        guard let cable else { return .failed(SystemError(errno: EPIPE, operation: "send")) }
        var total = 0
        for slice in slices {
            let taken = cable.send(UnsafeRawBufferPointer(start: slice.base, count: slice.count))
            total += taken
            if taken < slice.count { break }
        }
        return total > 0 ? .wrote(total) : .wouldBlock
    }

    func shutdownSending() { isClosed = true }

    func close() {
        isClosed = true
        kernel.close(fileDescriptor)
    }
}

/// The descriptors of a simulated machine. All on the simulation's thread, hence unchecked.
final class SimulatedKernel: @unchecked Sendable {
    let time: SimulatedTime
    private var open: [Int32: CableEnd] = [:]
    /// Numbers that no descriptor of the process has.
    private var lastDescriptor: Int32 = 1_000_000

    init(time: SimulatedTime) { self.time = time }

    func add(_ end: CableEnd) -> Int32 {
        lastDescriptor += 1
        open[lastDescriptor] = end
        return lastDescriptor
    }

    func close(_ descriptor: Int32) { open[descriptor] = nil }

    func closeAll() { open = [:] }

    func readiness(of descriptor: Int32) -> ReadyEvents { open[descriptor]?.readiness ?? [] }
}

/// The kernel as one simulated loop sees it. A wait never sleeps: whoever runs the loop does so when `isReady`. On the
/// simulation's thread, hence unchecked.
final class SimulatedPoller: Poller, @unchecked Sendable {
    private struct Watch {
        let descriptor: Int32
        var interest: Interest
        let data: UInt64
    }

    private let kernel: SimulatedKernel
    private var watches: [Watch] = []
    private var random: SeededGenerator
    /// Runs on, so that nobody waits awake for a clock that stands.
    private var microseconds: UInt64 = 0

    init(_ kernel: SimulatedKernel, seed: UInt64) {
        self.kernel = kernel
        random = SeededGenerator(seed: seed)
    }

    /// Whether a wait would end.
    var isReady: Bool { watches.contains { !events(of: $0).isEmpty } }

    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        watches.append(Watch(descriptor: descriptor.rawValue, interest: interest, data: data))
    }

    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        guard let place = watches.firstIndex(where: { $0.data == data }) else { return }
        watches[place].interest = interest
    }

    func remove(_ descriptor: FileDescriptor) { watches.removeAll { $0.descriptor == descriptor.rawValue } }

    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int {
        var count = 0
        for watch in watches.shuffled(using: &random) where count < events.count {
            let ready = self.events(of: watch)
            if ready.isEmpty { continue }
            events[count] = ReadyRecord(ready, data: watch.data)
            count += 1
        }
        return count
    }

    func wake() {}

    func pause(microseconds: UInt32) {}

    var nowMilliseconds: UInt64 { kernel.time.now }

    var nowMicroseconds: UInt64 {
        microseconds += 1
        return kernel.time.now * 1000 + microseconds
    }

    private func events(of watch: Watch) -> ReadyEvents {
        // Asked for very often, hence the bits.
        let wanted = watch.interest.rawValue | ReadyEvents.error.rawValue | ReadyEvents.hangUp.rawValue
        return ReadyEvents(rawValue: kernel.readiness(of: watch.descriptor).rawValue & wanted)
    }
}
