import MQTTCodec
import MartletTestKit
import Testing

@Suite struct VariableByteIntegerTests {
    private static func read(_ frame: Frame) -> Result<[Int], WireError> {
        frame.bytes.withUnsafeBytes { bytes in
            Result { () throws(WireError) in
                let (value, size) = try VariableByteInteger.read(bytes)
                return [value, size]
            }
        }
    }

    @Test(
        .statement("MQTT-1.5.5-1", .v5),
        arguments: [
            (0, Frame(stringLiteral: "00")), (1, "01"), (127, "7F"), (128, "80 01"), (16_383, "FF 7F"), (16_384, "80 80 01"),
            (2_097_151, "FF FF 7F"), (2_097_152, "80 80 80 01"), (268_435_455, "FF FF FF 7F"),
        ])
    func `an integer takes as few bytes as it can`(_ value: Int, _ frame: Frame) {
        let written = [UInt8](unsafeUninitializedCapacity: 4) { buffer, count in
            if let base = buffer.baseAddress { count = VariableByteInteger.write(value, to: UnsafeMutableRawPointer(base)) }
        }
        #expect(Frame(written) == frame)
        #expect(VariableByteInteger.encodedSize(value) == frame.bytes.count)
        #expect(Self.read(frame) == .success([value, frame.bytes.count]))
        #expect(Self.read(Frame(frame.bytes + [0xFF])) == .success([value, frame.bytes.count]))
        #expect(Self.read(Frame(frame.bytes.dropLast())) == .failure(.truncated))
    }

    @Test(
        .statement("MQTT-1.5.5-1", .v5), arguments: ["80 00", "FF 00", "80 80 00", "80 80 80 00", "80 80 80 80", "FF FF FF FF 01"])
    func `a longer form than needed is malformed`(_ frame: Frame) {
        #expect(Self.read(frame) == .failure(.nonMinimalVariableByteInteger))
    }
}
