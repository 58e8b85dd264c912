import MQTTCodec
import MartletTestKit
import Testing

@Suite struct FrameScanTests {
    @Test(arguments: [
        (Frame(stringLiteral: ""), FrameScan.incomplete),
        ("C0", .incomplete),
        ("C0 00", .packet(firstByte: 0xC0, headerLength: 2, bodyLength: 0)),
        ("30 7F", .packet(firstByte: 0x30, headerLength: 2, bodyLength: 127)),
        ("30 80", .incomplete),
        ("30 80 01", .packet(firstByte: 0x30, headerLength: 3, bodyLength: 128)),
        ("30 FF 7F", .packet(firstByte: 0x30, headerLength: 3, bodyLength: 16_383)),
        ("30 80 80", .incomplete),
        ("30 80 80 01", .packet(firstByte: 0x30, headerLength: 4, bodyLength: 16_384)),
        ("30 FF FF 7F", .packet(firstByte: 0x30, headerLength: 4, bodyLength: 2_097_151)),
        ("30 FF FF FF", .incomplete),
        ("30 80 80 80 01", .packet(firstByte: 0x30, headerLength: 5, bodyLength: 2_097_152)),
        ("30 FF FF FF 7F 00", .packet(firstByte: 0x30, headerLength: 5, bodyLength: 268_435_455)),
        ("30 FF FF FF FF", .malformed(.remainingLengthTooLong)),
        ("30 80 80 80 80 01", .malformed(.remainingLengthTooLong)),
        // Longer than it need be: MQTT 3.1.1 does not forbid it.
        ("30 82 80 80 00", .packet(firstByte: 0x30, headerLength: 5, bodyLength: 2)),
    ])
    func `a fixed header is found in at most five bytes`(_ frame: Frame, _ expected: FrameScan) {
        #expect(frame.bytes.withUnsafeBytes(FrameScan.scan) == expected)
    }
}
