import Platform
import Testing

@Suite struct TextSearchTests {
    @Test(arguments: [
        ("", "", true), ("a", "", true), ("", "a", false), ("a", "a", true), ("ab", "b", true), ("aab", "ab", true),
        ("aaab", "aab", true),
        ("ab", "abc", false), ("Zuversicht für alle", "für", true), ("für", "fur", false),
    ])
    func `A text holds another`(_ text: String, _ sought: String, _ isHeld: Bool) {
        #expect(text.holds(sought) == isHeld)
    }

    @Test func `The first place is told`() throws {
        let text = "a://b://c"
        let place = try #require(text.firstPlace(of: "://"))
        #expect(text[..<place.lowerBound] == "a")
        #expect(text[place.upperBound...] == "b://c")
    }

    @Test func `Every place is replaced, and what comes in is not looked at again`() {
        #expect("it's 'so'".replacing(every: "'", by: "''") == "it''s ''so''")
        #expect("none".replacing(every: "x", by: "y") == "none")
    }

    /// Against the plain way on all short texts.
    @Test func `A text holds what one of its parts is`() {
        let texts = (0..<3).reduce([""]) { texts, _ in texts + texts.flatMap { text in ["a", "b"].map { text + $0 } } }
        for text in texts {
            for sought in texts {
                let parts = text.indices.map { text[$0...] } + [""]
                #expect(text.holds(sought) == parts.contains { $0.hasPrefix(sought) }, "\(text) \(sought)")
            }
        }
    }
}
