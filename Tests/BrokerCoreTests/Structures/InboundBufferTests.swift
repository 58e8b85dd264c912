import TestBasics
import Testing

@testable import BrokerCore

@Suite struct InboundBufferTests {
    @Test func `pieces of any size come out as they went in`() {
        var random = SeededGenerator(seed: 71)
        var buffer = InboundBuffer()
        for _ in 0..<30 {
            var expected: [UInt8] = []
            for _ in 0..<random.below(40) {
                let piece = (0..<random.below(random.oneIn(10) ? 5000 : 90)).map { _ in UInt8.random(in: 0...255, using: &random) }
                piece.withUnsafeBytes { buffer.append($0) }
                expected += piece
                #expect(buffer.count == expected.count)
                #expect(buffer.isEmpty == expected.isEmpty)
            }
            #expect(Array(buffer.bytes) == expected)
            buffer.reset()
            #expect(buffer.isEmpty)
            #expect(buffer.bytes.baseAddress == nil, "no memory is held without a cut packet")
        }
    }

    @Test func `no bytes need no memory`() {
        var buffer = InboundBuffer()
        buffer.append(UnsafeRawBufferPointer(start: nil, count: 0))
        [UInt8]().withUnsafeBytes { buffer.append($0) }
        #expect(buffer.bytes.baseAddress == nil)
        buffer.reset()
    }
}
