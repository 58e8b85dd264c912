import BrokerModel
import TestBasics
import Testing

@testable import Cluster

/// Writers, log and engine under chance. `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
struct LogStormTests {
    @Test(arguments: Seeds.parts(60, perPart: 30))
    func `what is acknowledged is in the log once and in its publisher's order, whatever becomes of leaders and answers`(
        seeds: ClosedRange<UInt64>
    ) {
        for seed in seeds {
            // Odd seeds give up soon, so that records are overtaken by those behind them.
            let world = LogWorld(seed: seed, outageMilliseconds: seed % 2 == 0 ? 60_000 : 3000)
            for _ in 0..<60 { world.step(faults: true) }
            world.check()
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
            if seed % 2 == 0, !world.unknown.isEmpty, world.clock.now < 60_000_000 {
                Issue.record("\(world) gave up too soon: \(Seeds.replay(seed))")
            }
        }
    }
}
