import MQTTCodec
import Platform
import Testing

@testable import Commands

@Suite struct MirrorTests {
    private func model(_ messages: [(TopicName, String)] = [], at now: UInt64 = 0) -> MirrorModel {
        var model = MirrorModel(title: "home/# on localhost")
        for (topic, payload) in messages { model.add(TopicTree.Arrival(topic: topic, payload: Array(payload.utf8)), at: now) }
        return model
    }

    private func screen(_ model: inout MirrorModel, columns: Int = 60, rows: Int = 12, at now: UInt64 = 10_000) -> [String] {
        model.lines(columns: columns, rows: rows, at: now, isUnicode: true).map { line in
            let text = line.map(\.text).joined()
            return String(text.reversed().drop { $0 == " " }.reversed())
        }
    }

    private let house: [(TopicName, String)] = [
        ("home/kitchen/temperature", "21.5"), ("home/kitchen/lamp", "on"), ("home/hall/door", "shut"),
    ]

    @Test func `Topics stand as a tree with values and ages, levels without a choice in one line`() {
        var model = model(house)
        #expect(
            screen(&model) == [
                "home/# on localhost",
                "home/              3",
                "├─ hall/door       shut                       10s",
                "└─ kitchen/        2",
                "   ├─ lamp         on                         10s",
                "   └─ temperature  21.5                       10s",
                "", "", "", "", "",
                "3 topics  3 messages  0.1/s  / filter  p pause  q quit",
            ])
    }

    @Test func `No line is longer than the terminal, and there are as many as it has rows`() {
        var model = model(house)
        model.add(
            TopicTree.Arrival(topic: "home/漢字/\u{1F600}", payload: Array(String(repeating: "漢\u{1b}[31m", count: 200).utf8)), at: 0)
        for columns in [1, 2, 10, 20, 39, 40, 41, 80, 200] {
            for rows in [1, 2, 3, 5, 24] {
                let lines = model.lines(columns: columns, rows: rows, at: 5, isUnicode: true)
                #expect(lines.count == max(3, rows))
                for line in lines { #expect(TerminalText.columns(of: line.map(\.text).joined()) <= columns) }
            }
        }
    }

    @Test func `Nothing that is received moves the cursor or changes colours`() {
        var model = model()
        let evil = Array("\u{1b}[2J\u{7}\u{9b}31m\r\n\u{202e}x".utf8)
        model.add(TopicTree.Arrival(topic: "a\u{1b}[H\u{85}b", payload: evil), at: 0)
        for text in model.lines(columns: 80, rows: 5, at: 0, isUnicode: true).joined().map(\.text) {
            #expect(!text.unicodeScalars.contains { $0.value < 32 || (127..<160).contains($0.value) || $0.value == 0x202E })
        }
    }

    @Test func `What has just changed stands out, and only for a while`() {
        var model = model([("a", "1")], at: 0)
        func looks(_ now: UInt64) -> [StyledText.Look] {
            model.lines(columns: 60, rows: 3, at: now, isUnicode: true)[1].map(\.look)
        }
        #expect(looks(100).contains(.fresh))
        #expect(!looks(2000).contains(.fresh))
        model.add(TopicTree.Arrival(topic: "a", payload: Array("1".utf8)), at: 3000)
        #expect(!looks(3000).contains(.fresh))
        model.add(TopicTree.Arrival(topic: "a", payload: Array("2".utf8)), at: 3000)
        #expect(looks(3000).contains(.fresh))
    }

    @Test func `A retained message is marked until an empty one removes it`() {
        var tree = TopicTree()
        func take(_ payload: String, _ isRetained: Bool) {
            tree.add(TopicTree.Arrival(topic: "a", payload: Array(payload.utf8), isRetained: isRetained), at: 0)
        }
        take("1", true)
        #expect(tree.leaf("a")?.isRetained == true)
        take("2", false)
        #expect(tree.leaf("a")?.isRetained == true)
        take("", true)
        #expect(tree.leaf("a")?.isRetained == false)
        #expect(tree.leaf("a")?.count == 3)
        #expect(tree.leaf("b") == nil)
    }

    @Test func `Too many topics are counted and not kept`() {
        var tree = TopicTree(topicsMax: 2)
        for topic: TopicName in ["a", "a/b", "c", "a", "d/e"] { tree.add(TopicTree.Arrival(topic: topic, payload: []), at: 0) }
        #expect(tree.topicCount == 2)
        #expect(tree.overlookedCount == 2)
        #expect(tree.messageCount == 5)
        #expect(tree.leaf("a")?.count == 2)
    }

    @Test func `A filter shows what holds it in topic or value, and the way there`() {
        var model = model(house)
        for key in "/lamp\n" { #expect(model.press(.character(key), rows: 12) == .nothing) }
        #expect(screen(&model)[1...2] == ["home/kitchen/lamp  on                         10s", ""])
        _ = model.press(.escape, rows: 12)
        for key in "/SHUT\n" { _ = model.press(.character(key), rows: 12) }
        #expect(screen(&model)[1].hasPrefix("home/hall/door"))
        _ = model.press(.character("/"), rows: 12)
        #expect(screen(&model)[11] == "/SHUT_")
        for _ in 0..<4 { _ = model.press(.backspace, rows: 12) }
        // A q while typing is a letter.
        #expect(model.press(.character("q"), rows: 12) == .nothing)
        #expect(screen(&model)[11] == "/q_")
        #expect(model.press(.interrupt, rows: 12) == .end)
    }

    @Test func `Keys scroll as far as there is something`() {
        var model = model((0..<50).map { (TopicName(Array("t/\($0 + 10)".utf8)) ?? "none", "x") })
        func first() -> String { screen(&model)[1] }
        #expect(first().hasPrefix("t/"))
        _ = model.press(.down, rows: 12)
        #expect(first().hasPrefix("├─ 10"))
        _ = model.press(.pageDown, rows: 12)
        #expect(first().hasPrefix("├─ 20"))
        _ = model.press(.end, rows: 12)
        #expect(first().hasPrefix("├─ 50"))
        #expect(screen(&model)[10].hasPrefix("└─ 59"))
        _ = model.press(.down, rows: 12)
        #expect(first().hasPrefix("├─ 50"))
        _ = model.press(.home, rows: 12)
        _ = model.press(.up, rows: 12)
        #expect(first().hasPrefix("t/"))
        #expect(model.press(.character("q"), rows: 12) == .end)
    }

    @Test func `A pause holds the picture`() {
        var model = model([("a", "1")])
        _ = model.press(.character("p"), rows: 5)
        let before = screen(&model, rows: 5)[1]
        model.add(TopicTree.Arrival(topic: "a", payload: Array("2".utf8)), at: 0)
        #expect(screen(&model, rows: 5)[1] == before)
        _ = model.press(.character("p"), rows: 5)
        #expect(screen(&model, rows: 5)[1] != before)
    }

    @Test func `A steady stream's rate is told from its first seconds on`() {
        var meter = RateMeter()
        for tick in 0..<300 {
            meter.count(at: UInt64(tick) * 100)
            if tick >= 50 { #expect(abs(meter.perSecond(at: UInt64(tick) * 100 + 50) - 10) < 1, "\(tick)") }
        }
        #expect(meter.perSecond(at: 90_000) < 0.01)
        #expect(
            ["", "2/min", "0.5/s", "10/s", "1000/s", "12 k/s", "10 M/s"]
                == [0.001, 0.04, 0.5, 9.96, 1000, 12_000, 10_000_000].map(MirrorModel.rate))
        #expect(["0s", "59s", "1m", "2h", "3d"] == [999, 59_999, 60_000, 7_200_000, 259_200_000].map(MirrorModel.age))
    }

    @Test func `What a terminal sends becomes keys, in whatever pieces it comes`() {
        let whole = Array("a\u{1b}[A\u{1b}OB\u{1b}[5~\u{1b}[6~\u{1b}[Hé漢\u{7f}\r\u{3}\u{1b}[1;5C\u{1b}[15~q".utf8)
        let keys: [TerminalKey] = [
            .character("a"), .up, .down, .pageUp, .pageDown, .home, .character("é"), .character("漢"), .backspace, .character("\n"),
            .interrupt, .right, .character("q"),
        ]
        for size in 1...whole.count {
            var reader = KeyReader()
            var found: [TerminalKey] = []
            for start in stride(from: 0, to: whole.count, by: size) {
                found += reader.take(whole[start..<min(start + size, whole.count)], isPause: false)
            }
            #expect(found == keys, "in pieces of \(size)")
        }
        var reader = KeyReader()
        #expect(reader.take([0x1B], isPause: false) == [])
        #expect(reader.take([], isPause: true) == [.escape])
        #expect(reader.take([0xC3], isPause: true) == [])
        #expect(reader.take([0xFF, UInt8(ascii: "x")], isPause: true) == [.character("x")])
    }
}
