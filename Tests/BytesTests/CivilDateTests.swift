import Testing

@testable import Bytes

@Suite struct CivilDateTests {
    @Test func `every day of 1,200 years follows the one before, and comes back`() {
        var last = CivilDate(daysSince1970: -220_000)
        for days in -219_999...220_000 {
            let date = CivilDate(daysSince1970: days)
            let isNext =
                date == CivilDate(year: last.year, month: last.month, day: last.day + 1)
                || date == CivilDate(year: last.year, month: last.month + 1, day: 1)
                || date == CivilDate(year: last.year + 1, month: 1, day: 1) && last.month == 12
            guard isNext, date.exists, date.daysSince1970 == days, date.weekday == (last.weekday + 1) % 7 else {
                Issue.record("\(days): \(date) follows \(last)")
                return
            }
            last = date
        }
    }

    @Test(arguments: [
        (0, 1970, 1, 1, 4), (-1, 1969, 12, 31, 3), (11_016, 2000, 2, 29, 2), (20_785, 2026, 11, 28, 6),
        (2_932_896, 9999, 12, 31, 5),
    ])
    func `known days are found`(days: Int, year: Int, month: Int, day: Int, weekday: Int) {
        #expect(CivilDate(daysSince1970: days) == CivilDate(year: year, month: month, day: day))
        #expect(CivilDate(daysSince1970: days).weekday == weekday)
    }

    @Test(arguments: [(2026, 2, 29), (1900, 2, 29), (2026, 4, 31), (2026, 13, 1), (2026, 0, 1), (2026, 1, 0), (2026, 1, 32)])
    func `days that are none do not exist`(year: Int, month: Int, day: Int) {
        #expect(!CivilDate(year: year, month: month, day: day).exists)
    }

    @Test func `leap days exist`() {
        #expect(CivilDate(year: 2028, month: 2, day: 29).exists && CivilDate(year: 2000, month: 2, day: 29).exists)
    }
}
