import Testing

@testable import Bench

@Suite struct ReportTests {
    @Test(arguments: [
        (0.0, 0, "0"), (1.5, 1, "1.5"), (0.05, 2, "0.05"), (12.3456, 3, "12.346"), (-0.004, 2, "0.00"), (-1.25, 1, "-1.3"),
        (999.999, 2, "1000.00"),
    ])
    func `numbers have the digits asked for`(number: Double, digits: Int, text: String) {
        #expect(number.decimalText(digits: digits) == text)
    }

    @Test(arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (-1_234_567, "-1,234,567")])
    func `counts have commas between thousands`(count: Int, text: String) {
        #expect(count.groupedText == text)
    }

    @Test func `a result is one line of JSON in its own order`() {
        var result = BenchResult()
        result.add("b", "label", .text("quote \" slash \\ line \n"))
        result.add("a", "label", 12)
        result.add("c", "label", 1.25, digits: 3, unit: "µs")
        var group = BenchResult()
        group.add("p50", "p50", 7.0, digits: 1)
        result.add("d", "label", .group(group.entries))
        #expect(result.json == #"{"b":"quote \" slash \\ line \u000a","a":12,"c":1.250,"d":{"p50":7.0}}"#)
    }

    @Test func `a table has a line for each figure`() {
        var result = BenchResult()
        result.add("a", "short", 12_345, unit: "messages/s")
        result.add("b", "longer label", 0.5, digits: 2)
        #expect(result.table == "  short         12,345 messages/s\n  longer label  0.50")
    }

    @Test func `what is no number is told as zero`() {
        var result = BenchResult()
        result.add("a", "label", .nan, digits: 1)
        #expect(result.json == #"{"a":0.0}"#)
    }
}
