import Testing

@testable import ClusterGateway
@testable import MartletServer

@Suite struct RFC3339Tests {
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:01:40.5Z", 100), ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-24T13:00:00.123456789Z", 1_795_525_200), ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] as [(String, UInt64)])
    func `a time of UTC is so many seconds since 1970`(text: String, seconds: UInt64) {
        #expect(RFC3339.seconds(of: text) == seconds)
    }

    @Test(arguments: [
        "", "2026-11-24", "2026-11-24T13:00:00+01:00", "2026-13-24T13:00:00Z", "1969-12-31T23:59:59Z", "x026-11-24T13:00:00Z",
    ])
    func `what is none is nil`(text: String) { #expect(RFC3339.seconds(of: text) == nil) }
}
