import Bytes
import Configuration
import Glibc
import MQTTCodec
import MartletTestKit
import Platform
import Security
import Synchronization
import Testing
import Transports

@testable import BrokerCore
@testable import BrokerModel
@testable import MartletServer
@testable import ServerLoops

/// How loops end: together, and always.
@Suite struct ShutdownBarrierTests {
    @Test(.timeLimit(.minutes(10)))
    func `loops end together, and a connection handed over behind the word to stop is closed`() throws {
        let workers = WorkerPool(name: "test", threads: 1, queue: 1)
        defer { workers.stop() }
        let loops = try loops(2, workers)
        let shutdownBarrier = ShutdownBarrier(loops: 2)
        let first = try NamedThread.start(name: "first") { loops[0].run() }
        loops[0].mailbox.post(.stop(shutdownBarrier))
        // Two turns later it has nothing left to do, and is there all the same.
        for number in UInt64(1)...2 {
            loops[0].mailbox.post(.heartbeat(number))
            while loops[0].heartbeat.load(ordering: .acquiring) != number { sched_yield() }
        }
        #expect(!shutdownBarrier.isComplete)
        var ends: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let handOver = HandOver(
            shard: 0, info: ConnectionInfo(address: "192.0.2.1"), connect: ConnectPacket(clientIdentifier: "late"), unread: [])
        loops[0].mailbox.post(.handOver(handOver, DescriptorChannel(ends[0]), nil, nil))
        let second = try NamedThread.start(name: "second") { loops[1].run() }
        loops[1].mailbox.post(.stop(shutdownBarrier))
        let answer = everything(from: ends[1])
        close(ends[1])
        first.join()
        second.join()
        #expect(answer.dropFirst(3).first == ReasonCode.serverUnavailable.rawValue)
        #expect(shutdownBarrier.isComplete)
    }

    private func loops(_ count: Int, _ workers: WorkerPool) throws -> [ShardLoop] {
        var logging = LoggingConfiguration()
        logging.destinations = []
        let log = try Log(logging)
        let setup = LoopSetup(
            settings: SimulatedBroker.testSettings, seed: 1, tables: try SecurityTables(reading: .default(), workers: workers),
            layers: [TransportLayers()], throttle: LoginThrottle(), store: nil, log: log)
        let shards = setup.shards(count: count, now: MonotonicClock.milliseconds()) { _ in KernelRandomNumbers() }
        return try setup.loops(for: shards, listeners: shards.map { _ in [] }) { index throws(SystemError) in
            try EventLoop(name: "loop \(index)")
        }
    }

    private func everything(from descriptor: Int32) -> [UInt8] {
        var (all, piece) = ([UInt8](), [UInt8](repeating: 0, count: 256))
        while true {
            let count = read(descriptor, &piece, piece.count)
            guard count > 0 else { return all }
            all += piece.prefix(count)
        }
    }
}

/// One end of a pair of sockets.
private final class DescriptorChannel: ByteChannel {
    let fileDescriptor: Int32
    let peerAddress = PeerAddress.local
    private let isClosed = Atomic<Bool>(false)

    init(_ descriptor: Int32) {
        fileDescriptor = descriptor
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        let count = Glibc.read(fileDescriptor, buffer.baseAddress, buffer.count)
        return count > 0 ? .bytes(count) : count == 0 ? .endOfStream : .wouldBlock
    }

    func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult {
        var written = 0
        for slice in slices { written += Glibc.write(fileDescriptor, slice.base, slice.count) }
        return .wrote(written)
    }

    func shutdownSending() { shutdown(fileDescriptor, Int32(SHUT_WR)) }

    func close() {
        if !isClosed.exchange(true, ordering: .relaxed) { Glibc.close(fileDescriptor) }
    }
}
