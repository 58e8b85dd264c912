import MartletTestKit
import TestBasics
import Testing

/// Share groups that dispatch what is in the log, whoever dies. `MARTLET_SEEDS=10000` runs as many seeds,
/// `MARTLET_SEED=17` runs that one.
@Suite struct DispatchStormTests {
    @Test(arguments: Seeds.parts(20, perPart: 5))
    func `a member acknowledges each message that the log has, whichever node dies and whichever member goes`(
        seeds: ClosedRange<UInt64>
    ) {
        for seed in seeds {
            let world = DispatchingCluster(seed: seed)
            let killedAt = seed % 4 == 0 ? nil : Int(seed * 7 % 100)
            // Who dispatches for that one may be killed as well, at once or later.
            let successorKilledAt = seed % 4 < 2 ? nil : killedAt.map { $0 + 20 + Int(seed / 4 % 3) * 4 }
            for step in 0..<150 {
                if step == killedAt { world.kill() }
                if step == killedAt.map({ $0 + 20 }) { world.bury() }
                if step == successorKilledAt { world.kill(successor: true, isLate: seed % 4 == 3) }
                if step == successorKilledAt.map({ $0 + 20 }) { world.bury() }
                world.step()
            }
            world.finish()
            let lost = world.logged.filter { world.done[$0] == nil }
            #expect(lost.isEmpty && world.logged.count > 20, "\(lost.sorted()) of \(world.logged.count): \(Seeds.replay(seed))")
            #expect(world.isDone, "somebody does not know that all is done: \(Seeds.replay(seed))")
            if !world.hasFaults { #expect(world.done.values.allSatisfy { $0 == 1 }, "some came twice: \(Seeds.replay(seed))") }
        }
    }
}
