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

@Suite struct WireErrorTests {
    @Test(arguments: WireError.allCases) func `an error tells a peer, a person and the standard what is wrong`(_ error: WireError) {
        #expect(error.reasonCode.isError)
        #expect(error.reasonCode.isAllowed(in: .disconnect, from: .server) || error.reasonCode == .unsupportedProtocolVersion)
        let explanation = error.explanation.description
        #expect(explanation.hasSuffix(".") && explanation.first?.isUppercase == true)
        #expect(error.statement.description.isEmpty || error.statement.description.hasPrefix("MQTT-"))
    }

    @Test func `every error is proved by a packet`() {
        let cases =
            ConnectTests.malformed + ConnackTests.malformed + PublishTests.malformed + AcknowledgementTests.malformed
            + SubscribeTests.malformed + UnsubscribeTests.malformed + PingTests.malformed + DisconnectTests.malformed
            + AuthTests.malformed
        #expect(Set(WireError.allCases).subtracting(cases.map(\.error)).isEmpty)
    }
}

@Suite struct LoggedTextTests {
    @Test func `the log names no more than 256 bytes of what a peer calls something`() {
        #expect("\(LoggedText("".utf8))" == "")
        let whole = String(repeating: "a", count: 256)
        #expect("\(LoggedText(whole.utf8))" == whole)
        #expect("\(LoggedText("\(whole)a".utf8))" == "\(whole)...")
    }

    @Test(arguments: 250...256) func `no character is cut`(position: Int) {
        let head = String(repeating: "a", count: position)
        for character in ["é", "温", "🌡"] {
            let fits = position + character.utf8.count <= 256
            let text = head + character + String(repeating: "b", count: 300)
            let rest = fits ? character + String(repeating: "b", count: 256 - position - character.utf8.count) : ""
            #expect("\(LoggedText(text.utf8))" == head + rest + "...")
        }
    }
}
