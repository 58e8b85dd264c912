import MQTTCodec
import Testing

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
