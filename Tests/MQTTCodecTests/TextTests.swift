import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@Suite struct TextTests {
    private static func validate(_ frame: Frame) -> WireError? { frame.bytes.withUnsafeBytes(UTF8Validation.validate) }

    @Test(
        .statement("MQTT-1.5.4-1", .v5),
        arguments: [
            "80", "BF", "C0 80", "C0 AF", "C1 BF", "C2", "C2 'a", "C2 C2", "C3 28", "E0 80 80", "E0 9F BF", "E0 A0", "E0 A0 'a",
            "E2 82", "E2 28 A1", "ED A0 80", "ED AF BF", "ED B0 80", "ED BF BF", "F0 80 80 80", "F0 8F BF BF", "F0 90 80",
            "F0 28 8C BC", "F4 90 80 80", "F5 80 80 80", "F8 88 80 80 80", "FE", "FF", "EF BF", "F1 80 80 'a",
        ])
    func `ill-formed UTF-8 is refused wherever it stands`(_ frame: Frame) {
        for padding in 0..<20 {
            let before = [UInt8](repeating: 0x61, count: padding)
            #expect(Self.validate(Frame(before + frame.bytes)) == .invalidUTF8)
            #expect(Self.validate(Frame(before + frame.bytes + before)) == .invalidUTF8)
        }
    }

    @Test(.statement("MQTT-1.5.4-1", .v5)) func `surrogates are refused, all of them`() {
        for second in UInt8(0xA0)...0xBF {
            for third in UInt8(0x80)...0xBF { #expect(Self.validate(Frame([0xED, second, third])) == .invalidUTF8) }
        }
    }

    @Test(.statement("MQTT-1.5.4-2", .v5)) func `the null character is refused wherever it stands`() {
        for count in 1..<40 {
            for index in 0..<count {
                var text = [UInt8](repeating: 0x61, count: count)
                #expect(Self.validate(Frame(text)) == nil)
                text[index] = 0
                #expect(Self.validate(Frame(text)) == .nullCharacter)
            }
        }
    }

    @Test(.statement("MQTT-1.5.4-3", .v5)) func `U+FEFF is kept`() throws {
        let text = try #require(EncodedString([0xEF, 0xBB, 0xBF, 0x61]))
        #expect(text.bytes == [0xEF, 0xBB, 0xBF, 0x61])
        #expect(text != "a")
    }

    @Test func `every scalar but zero is taken`() {
        for value in UInt32(1)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = Array(String(Character(scalar)).utf8)
            if text.withUnsafeBytes(UTF8Validation.validate) != nil { Issue.record("U+\(String(value, radix: 16)) is refused") }
        }
    }

    @Test func `the bytes of random text are judged as Swift judges them`() {
        var generator = SeededGenerator(seed: 7)
        let alphabet: [UInt8] = [0x41, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4]
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 1..<14, using: &generator)).map { _ in alphabet.randomElement(using: &generator) ?? 0x41
            }
            let isLegal = String(validating: bytes, as: UTF8.self) != nil
            #expect((Self.validate(Frame(bytes)) == nil) == isLegal)
        }
    }

    @Test func `equal means the same bytes`() {
        let composed: EncodedString = "\u{E9}"
        let decomposed: EncodedString = "e\u{301}"
        #expect(composed.description == decomposed.description)  // To Swift they are one text.
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
    }

    @Test func `text has at most 65,535 bytes`() {
        #expect(EncodedString([UInt8](repeating: 0x61, count: 65_535)) != nil)
        #expect(EncodedString([UInt8](repeating: 0x61, count: 65_536)) == nil)
        #expect(TopicName([UInt8](repeating: 0x61, count: 65_536)) == nil)
        #expect(TopicFilter([UInt8](repeating: 0x61, count: 65_536)) == nil)
    }
}
