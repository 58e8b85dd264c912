import Testing

@testable import Bench

@Suite struct ScaledTests {
    @Test(arguments: [
        (0.0, "0 ns"), (1, "1.00 ns"), (850, "850 ns"), (999.4, "999 ns"), (999.6, "1.00 µs"), (12_345, "12.3 µs"),
        (99_960, "100 µs"),
        (1_250_000, "1.25 ms"), (999_499_999, "999 ms"), (999_600_000, "1.00 s"), (61_500_000_000, "61.5 s"), (5e12, "5,000 s"),
    ])
    func `a time has three digits and the unit that fits`(nanoseconds: Double, text: String) {
        #expect(Scaled.time(nanoseconds) == text)
    }

    @Test(arguments: [
        (0.0, "0 bytes"), (1, "1 byte"), (64, "64 bytes"), (1317, "1,317 bytes"), (9999, "9,999 bytes"), (16_384, "16.4 KB"),
        (26_100_000, "26.1 MB"), (2.76e9, "2.76 GB"), (5e15, "5,000 TB"), (-20_480, "-20.5 KB"), (-3, "-3 bytes"),
    ])
    func `a size has the unit that fits, and small ones are exact`(bytes: Double, text: String) {
        #expect(Scaled.bytes(bytes) == text)
    }

    @Test(arguments: [
        (0.0, "0"), (7, "7"), (0.5, "0.50"), (12.34, "12.3"), (999, "999"), (999.9, "1,000"), (6736, "6,736"), (12_345, "12.3 k"),
        (43_312_345, "43.3 M"),
    ])
    func `a count has three digits`(count: Double, text: String) {
        #expect(Scaled.count(count) == text)
    }

    @Test func `a figure is told in the unit that fits, and stays in its own in JSON`() {
        var result = BenchResult()
        result.add("broker_cpu_us_per_out", "broker CPU", 0.0231, digits: 4, unit: .microseconds("for each message delivered"))
        result.add("broker_rss_kib", "broker memory", 26_608, unit: .kibibytes)
        result.add("out_megabytes_per_s", "payload out", 2760.0, digits: 1, unit: .megabytesPerSecond)
        #expect(
            result.table == """
                  broker CPU     23.1 ns for each message delivered
                  broker memory  27.2 MB
                  payload out    2.76 GB/s
                """)
        #expect(result.json == #"{"broker_cpu_us_per_out":0.0231,"broker_rss_kib":26608,"out_megabytes_per_s":2760.0}"#)
    }
}
