import Platform
import Testing

@testable import Commands

@Suite struct TableTests {
    @Test func `columns are as wide as what stands in them, numbers to the right`() {
        var table = TextTable([.text("NAME"), .number("COUNT"), .text("WHY")])
        table.rows = [["a", "1", "x"], ["bcdefg", "1000000", ""]]
        #expect(table.lines(width: nil) == ["NAME      COUNT  WHY", "a             1  x", "bcdefg  1000000  "])
    }

    @Test(arguments: [10, 20, 33, 40, 80, 200])
    func `no line is wider than the terminal, and numbers stay whole where there is room for them`(width: Int) {
        var table = TextTable([.text("CLIENT"), .text("USER"), .number("QUEUED")])
        table.rows = [
            [String(repeating: "sensor", count: 20), "plant", "123456"], ["短い名前" + String(repeating: "漢", count: 30), "u", "7"],
        ]
        let lines = table.lines(width: width)
        for line in lines { #expect(TerminalText.columns(of: line) <= width) }
        if width >= 33 { #expect(lines[1].hasSuffix("123456") && lines[1].contains("…") == (width < 200)) }
    }

    @Test func `nothing that a client has named moves the cursor or turns the line`() {
        let hostile = "a\u{1b}[2J\u{7}\r\n\t\u{9b}31m\u{202e}\u{2066}\u{feff}\u{e0041}"
        var table = TextTable([.text("CLIENT"), .text("USER")])
        table.rows = [[hostile, hostile]]
        var facts = FactList()
        facts.add("User", hostile)
        for line in table.lines(width: 80) + facts.lines(width: nil) + [ControlError(.refused, hostile).description] {
            #expect(line.unicodeScalars.allSatisfy { $0.value >= 32 && !(127..<160).contains($0.value) })
            #expect(line.unicodeScalars.allSatisfy { TerminalText.isSafe($0) })
        }
    }

    @Test func `JSON on a terminal is the same JSON without what a terminal would obey`() {
        let (page, file) = (Page(), Page())
        let json = "{\"a\":\"\u{9b}31m\u{202e}é漢\u{e0041}\"}"
        page.output(width: 80).put(json.utf8)
        #expect(page.text == "{\"a\":\"\\u009b31m\\u202eé漢\\udb40\\udc41\"}\n")
        file.output().put(json.utf8)
        #expect(file.text == json + "\n")
    }

    @Test func `figures are short`() {
        #expect(
            [0, 999, 1000, 12_345, 999_950, 1_234_567, 5_000_000_000].map { Figures.bytes($0) }
                == ["0 B", "999 B", "1 kB", "12 kB", "1 MB", "1.2 MB", "5 GB"])
        #expect(
            [0, 59, 60, 3661, 90_000].map { Figures.duration(seconds: $0) } == ["0 s", "59 s", "1 min", "1 h 1 min", "1 d 1 h"])
        #expect(Figures.time("2026-11-23T10:28:59.123Z") == "2026-11-23 10:28:59")
        #expect(Figures.time("soon") == "soon")
        #expect(["90", "90s", "10m", "2h", "7d"].map { Figures.seconds($0) } == [90, 90, 600, 7200, 604_800])
        for text in ["", "0", "-1", "1.5h", "1w", "h", "99999999999999999999d", "١m"] { #expect(Figures.seconds(text) == nil) }
    }

    @Test func `a place is a URL without anything behind it, or a socket`() {
        #expect(ControlAddress(url: "http://broker.example:9883/") == .tcp(host: "broker.example", port: 9883, usesTLS: false))
        #expect(ControlAddress(url: "HTTPS://broker.example")?.description == "https://broker.example")
        #expect(ControlAddress(url: "http://[::1]:9883") == .tcp(host: "::1", port: 9883, usesTLS: false))
        #expect(ControlAddress(url: "http://[::1]:9883")?.host == "[::1]:9883")
        #expect(ControlAddress(url: "unix:/run/x.sock") == .unixSocket(path: "/run/x.sock"))
        for url in [
            "", "broker", "http://", "http://a/b", "http://u@a", "http://a:0", "http://a:x", "http://a:+1", "http://a?b",
            "http://a b",
            "http://[::1", "http://::1", "unix:x", "http://a:99999",
        ] { #expect(ControlAddress(url: url) == nil) }
    }
}
