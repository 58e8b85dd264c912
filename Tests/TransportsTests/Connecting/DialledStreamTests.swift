import Bytes
import Platform
import Testing

@testable import Transports

@Suite struct DialledStreamTests {
    /// Counts what its stream tells, and does what a test says when bytes come.
    final class Owner: StreamOwner {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 1)
        var isPaused: Bool { false }
        var whenReceived: () -> Void = {}
        private(set) var writes = 0

        deinit { room.deallocate() }

        func received(_ bytes: UnsafeRawBufferPointer) { whenReceived() }
        func wrote() { writes += 1 }
        func ended(_ reason: String?) { Issue.record("the stream ended") }
        func failedToWrite(_ error: SystemError, hasLayers: Bool) { Issue.record(error) }
    }

    @Test func `its owner hears that what waited was taken, also where that happens behind a read`() throws {
        let (near, far) = try SocketChannel.pair()
        let owner = Owner()
        let stream = try DialledStream(near, on: EventLoop(name: "dialled"), for: owner)
        stream.send([UInt8](repeating: 1, count: 1 << 20))
        #expect(stream.waitingBytes > 0)
        // The peer takes everything while it is heard.
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 1)
        defer { room.deallocate() }
        owner.whenReceived = { while case .bytes = far.read(into: room) {} }
        while stream.waitingBytes > 0 {
            let writes = owner.writes
            #expect(far.write([1]).count == 1)
            stream.ready(.readable)
            try #require(owner.writes > writes)
        }
        stream.close()
        far.close()
    }
}
