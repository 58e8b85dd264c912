import BrokerCore
import MartletTestKit
import TestBasics
import Testing

/// What a client is sent with QoS 2 comes once and in its order, whichever nodes are lost with their disks.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct DeliveryStormTests {
    @Test(.statement("MQTT-4.3.3-1", .v5), .timeLimit(.minutes(60)), arguments: Seeds.parts(60, perPart: 20))
    func `no message of QoS 2 comes twice or is lost when nodes are lost with their disks`(seeds: ClosedRange<UInt64>) {
        var deeds = DeliveryStorm.Deeds()
        for seed in seeds {
            var storm = DeliveryStorm(seed: seed)
            storm.run()
            #expect(storm.objections.isEmpty, "\(Seeds.replay(seed))")
            deeds += storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.losses == 2 * seeds.count && deeds.crashes >= seeds.count / 2, "\(deeds)")
        #expect(deeds.held >= seeds.count && deeds.repeated >= seeds.count / 2, "\(deeds)")
    }
}
