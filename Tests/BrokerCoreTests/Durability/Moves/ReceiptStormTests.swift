import BrokerCore
import MartletTestKit
import TestBasics
import Testing

/// What a client has sent with QoS 2 is taken once and in its order, whichever nodes are lost with their disks.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct ReceiptStormTests {
    @Test(.statement("MQTT-4.3.3-10", .v5), .timeLimit(.minutes(60)), arguments: Seeds.parts(60, perPart: 20))
    func `no message of QoS 2 is taken twice or lost when nodes are lost with their disks`(seeds: ClosedRange<UInt64>) {
        var deeds = ReceiptStorm.Deeds()
        for seed in seeds {
            var storm = ReceiptStorm(seed: seed)
            storm.run()
            #expect(storm.objections.isEmpty, "\(Seeds.replay(seed))")
            deeds += storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.losses == 2 * seeds.count && deeds.crashes >= seeds.count / 2, "\(deeds)")
        #expect(deeds.open >= seeds.count && deeds.reused >= seeds.count, "\(deeds)")
    }
}
