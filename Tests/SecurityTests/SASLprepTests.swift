import Platform
import Testing

@testable import Security

@Suite struct SASLprepTests {
    private func prepared(_ text: String, for purpose: SASLprep.Purpose = .storing) -> String? {
        SASLprep.prepare(Array(text.utf8), for: purpose).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        arguments: [
            ("I\u{AD}X", "IX"), ("user", "user"), ("USER", "USER"), ("\u{AA}", "a"), ("\u{2168}", "IX"), ("\u{7}", nil),
            ("\u{627}1", nil),
        ] as [(String, String?)])
    func `the examples of RFC 4013 come out as it says`(_ text: String, _ expected: String?) {
        for purpose in [SASLprep.Purpose.storing, .asking] { #expect(prepared(text, for: purpose) == expected) }
    }

    @Test func `what looks the same becomes the same bytes`() {
        // A letter and its accent apart, letters of full width, a blank that does not break.
        for (one, other) in [("a\u{308}", "ä"), ("\u{FF41}b", "ab"), ("a\u{A0}b", "a b"), ("\u{FB01}", "fi")] {
            #expect(SASLprep.prepare(Array(one.utf8), for: .storing) == Array(other.utf8))
        }
    }

    @Test func `nothing, control characters and what is not UTF-8 are refused`() {
        for text in ["", "a\u{0}b", "a\nb", "\u{7F}", "\u{85}", "\u{AD}", "\u{FFFD}", "\u{E000}"] {
            #expect(prepared(text, for: .asking) == nil)
        }
        #expect(SASLprep.prepare([0xC3, 0x28], for: .asking) == nil)
    }

    @Test func `what Unicode 3_2 does not know may be asked for and not kept`() {
        #expect(prepared("\u{221}", for: .storing) == nil)
        #expect(prepared("\u{221}", for: .asking) == "\u{221}")
    }

    @Test func `letters from right to left are fine by themselves`() {
        #expect(prepared("\u{627}1\u{628}") == "\u{627}1\u{628}")
    }

    @Test func `only ASCII may be long`() {
        let letters = SASLprep.preparedBytes / 2
        #expect(prepared(String(repeating: "a", count: 65535))?.count == 65535)
        #expect(prepared(String(repeating: "ä", count: letters))?.count == letters)
        #expect(prepared(String(repeating: "ä", count: letters + 1)) == nil)
    }
}
