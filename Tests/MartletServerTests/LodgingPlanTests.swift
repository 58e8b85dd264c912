import EpollLoop
import Testing

@testable import MartletServer

/// When a loop goes to lodge with another one, and for how long.
@Suite struct LodgingPlanTests {
    /// Loops that each have half a core, wait for it a quarter of the time, and do 1,000 things a millisecond.
    private final class Site {
        let usages: [LoopUsage]
        private(set) var now: UInt64 = 1000
        private var nanoseconds: UInt64 = 0
        private var work: UInt64 = 0

        init(loops: Int) { usages = (0..<loops).map { _ in LoopUsage() } }

        func pass(_ milliseconds: UInt64, workPerMillisecond: UInt64 = 1000) {
            let before = times(of: 0)
            now += milliseconds
            nanoseconds += milliseconds * 500_000
            work += milliseconds * workPerMillisecond
            for usage in usages { usage.note(work: work) }
            // Those with the lower numbers measure themselves too.
            for usage in usages.dropLast() where milliseconds <= 20 {
                #expect(usage.note(from: now - milliseconds, before, to: now, times(of: 0)))
            }
        }

        func times(of thread: Int32) -> ThreadTimes { ThreadTimes(thread: thread, running: nanoseconds, waiting: nanoseconds / 2) }

        func finds(_ plan: inout LodgingPlan, for index: Int) -> Bool {
            plan.findHost(for: index, among: usages, now: now) { times(of: Int32(index)) }
        }
    }

    /// Passes a window at home, then the stay; returns how long that is.
    private func stay(_ plan: inout LodgingPlan, _ site: Site, workPerMillisecond: UInt64 = 1000) throws -> UInt64 {
        let foundAtOnce = site.finds(&plan, for: 1)
        #expect(!foundAtOnce, "what it had before is not known")
        site.pass(20)
        let found = site.finds(&plan, for: 1)
        try #require(found)
        #expect(plan.host == 0)
        let length = plan.until - site.now
        site.pass(length, workPerMillisecond: workPerMillisecond)
        plan.cameHome(wasAway: true, 1, site.usages, now: site.now)
        #expect(plan.host == nil)
        return length
    }

    @Test func `the stays become longer while nothing changes, up to a second`() throws {
        var plan = LodgingPlan()
        let site = Site(loops: 2)
        let stays = try (0..<6).map { _ in try stay(&plan, site) }
        #expect(stays == [100, 200, 400, 800, 1000, 1000])
        site.pass(500)
        #expect(try stay(&plan, site) == 100)
    }

    @Test func `when two stays have shown that less is done then, the loop stays at home, each time for longer`() throws {
        var plan = LodgingPlan()
        let site = Site(loops: 2)
        for seconds in [2, 4, 8, 16, 16] as [UInt64] {
            #expect(try stay(&plan, site, workPerMillisecond: 880) == 100)
            #expect(try stay(&plan, site, workPerMillisecond: 880) == 200)
            let end = site.now
            while site.now < end + seconds * 1000 - 40 {
                let found = site.finds(&plan, for: 1)
                #expect(!found)
                site.pass(20)
            }
            site.pass(100)
        }
    }

    @Test func `a little less is not enough to tell`() throws {
        var plan = LodgingPlan()
        let site = Site(loops: 2)
        let stays = try (0..<4).map { _ in try stay(&plan, site, workPerMillisecond: 950) }
        #expect(stays == [100, 200, 400, 800])
    }

    @Test func `a host that did not come is left alone for a while`() {
        var plan = LodgingPlan()
        let site = Site(loops: 2)
        _ = site.finds(&plan, for: 1)
        site.pass(20)
        #expect(site.finds(&plan, for: 1))
        site.pass(5)
        plan.cameHome(wasAway: false, 1, site.usages, now: site.now)
        let end = site.now
        while !site.finds(&plan, for: 1) { site.pass(20) }
        #expect(site.now >= end + 100 && site.now <= end + 140)
        #expect(plan.until - site.now == 100)
    }

    @Test func `each host has one lodger, and the first loop is at home`() {
        let site = Site(loops: 4)
        var plans = (0..<4).map { _ in LodgingPlan() }
        for index in plans.indices { _ = site.finds(&plans[index], for: index) }
        site.pass(20)
        for index in plans.indices { _ = site.finds(&plans[index], for: index) }
        #expect(plans.map(\.host) == [nil, 0, nil, 2])
    }
}
