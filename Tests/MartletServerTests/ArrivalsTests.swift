import Testing

@testable import MartletServer
@testable import ServerLoops

@Suite struct ArrivalsTests {
    private final class Source {}

    /// Reads `bytes` from the source.
    private func read(_ bytes: [UInt8], from source: Source, into arrivals: inout Arrivals<Source>) {
        arrivals.room.copyBytes(from: bytes)
        arrivals.add(bytes.count, from: source)
    }

    @Test func `what was read is given in order, to whom it belongs, and once`() {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 8)
        defer { memory.deallocate() }
        let sources = (0..<10).map { _ in Source() }
        var arrivals = Arrivals<Source>(in: memory)
        for round in 0..<3 as Range<UInt8> {
            let pieces = (0..<10).map { number in (0..<UInt8(number + 1)).map { round * 100 + UInt8(number) + $0 } }
            for (source, piece) in zip(sources, pieces) { read(piece, from: source, into: &arrivals) }
            #expect(arrivals.room.count == 45)
            var taken: [(bytes: [UInt8], source: Source)] = []
            arrivals.takeAll { taken.append((Array($0), $1)) }
            #expect(taken.map(\.bytes) == pieces)
            #expect(zip(taken, sources).allSatisfy { $0.source === $1 })
            #expect(arrivals.room.count == 100)
            arrivals.takeAll { _, _ in Issue.record("it was taken") }
        }
    }

    @Test func `one read may fill all the room`() {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 8)
        defer { memory.deallocate() }
        let source = Source()
        var arrivals = Arrivals<Source>(in: memory)
        read([UInt8](repeating: 7, count: 64), from: source, into: &arrivals)
        #expect(arrivals.room.isEmpty)
        arrivals.takeAll { bytes, _ in #expect(bytes.elementsEqual([UInt8](repeating: 7, count: 64))) }
        #expect(arrivals.room.count == 64)
    }
}
