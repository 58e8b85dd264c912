import Testing

@testable import Bench

@Suite struct LiveViewTests {
    private func frame() -> LiveFrame {
        var frame = LiveFrame(title: "fanout → 127.0.0.1:1883", stage: "measuring")
        frame.fraction = 0.5
        frame.extent = "2.5 of 5 s"
        frame.figures = [("delivered", "43.3 M/s"), ("latency", "p50 1.21 ms   p99 3.40 ms")]
        frame.rates = [0, 10, 40, 80]
        return frame
    }

    private func text(_ lines: [[LiveFrame.Span]]) -> [String] { lines.map { $0.map(\.text).joined() } }

    @Test func `a frame has who is measured, how far it is, its rates and its latencies`() {
        #expect(
            text(frame().lines(columns: 80, isUnicode: true)) == [
                "fanout → 127.0.0.1:1883",
                "measuring    ████████████████████░░░░░░░░░░░░░░░░░░░░  2.5 of 5 s",
                "delivered    43.3 M/s    ▁▁▄█",
                "latency      p50 1.21 ms   p99 3.40 ms",
            ])
    }

    @Test func `a terminal without Unicode gets a bar of ASCII`() {
        let lines = text(frame().lines(columns: 60, isUnicode: false))
        #expect(lines[1] == "measuring    #################-----------------  2.5 of 5 s")
        #expect(lines[2] == "delivered    43.3 M/s")
    }

    @Test(arguments: [1, 2, 10, 20, 33, 34, 80, 200])
    func `no line is as wide as the terminal, or it would be two`(columns: Int) {
        var frame = frame()
        frame.alarm = "12 connections lost"
        frame.rates = Array(repeating: 1, count: 60)
        for line in frame.lines(columns: columns, isUnicode: true) { #expect(line.map(\.text).joined().count < max(1, columns)) }
    }

    @Test func `what is no terminal gets plain lines`() {
        var frame = frame()
        frame.alarm = "3 connections lost"
        #expect(
            frame.plain
                == "measuring, 2.5 of 5 s: delivered 43.3 M/s, latency p50 1.21 ms   p99 3.40 ms, 3 connections lost")
    }

    @Test func `a frame is drawn over the one before, and wiped at the end`() {
        var written: [String] = []
        let view = LiveView(
            .terminal(isColored: false, isUnicode: true), seconds: 5, columns: { 80 }, write: { written.append($0) })
        view.show(frame())
        view.show(frame())
        view.clear()
        view.clear()
        #expect(written.count == 3)
        #expect(written[0].hasPrefix("\rfanout") && written[0].filter { $0 == "\n" }.count == 3)
        #expect(written[1] == "\r\u{1b}[3A" + written[0].dropFirst())
        #expect(written[2] == "\r\u{1b}[3A\u{1b}[J")
    }

    @Test func `color is put in only where it is wanted`() {
        for isColored in [false, true] {
            var written = ""
            let view = LiveView(
                .terminal(isColored: isColored, isUnicode: true), seconds: 5, columns: { 80 }, write: { written += $0 })
            view.show(frame())
            #expect(written.contains("\u{1b}[1m") == isColored && written.contains("\u{1b}[36m") == isColored)
        }
    }

    @Test func `who wants silence gets it`() {
        let view = LiveView(.silent, seconds: 5, columns: { 80 }, write: { _ in Issue.record("something was written") })
        view.show(frame())
        view.show("something")
        view.clear()
    }

    @Test(arguments: [(1.0, 0.25), (15, 0.25), (16, 1), (600, 1), (3600, 6), (86_400, 144)])
    func `a short run has a few points, and a long one not too many`(seconds: Double, interval: Double) {
        #expect(RunMonitor.interval(seconds: seconds) == interval)
    }
}
