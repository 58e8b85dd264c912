import BrokerCore
import BrokerModel
import FuzzKit
import MQTTCodec
import Persistence

@testable import BrokerSimulation
@testable import MartletTestKit

/// A file of mosquitto's. What is taken for one becomes a store, and a broker starts on it that its clients come back
/// to.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    let bytes = Array(UnsafeRawBufferPointer(start: start, count: count))
    let database: MosquittoDatabase
    do throws(MosquittoDatabaseError) {
        database = try MosquittoDatabase(bytes)
    } catch {
        expect((0...bytes.count).contains(error.offset) && !error.description.isEmpty, "\(error) at \(error.offset)")
        return 0
    }
    let takeover = MosquittoImport(of: database, listenerPorts: [1883, 8883])
    // Each store gets its rows, and the core takes every one of them.
    for shards in [1, 3] {
        let store = SimulatedStore()
        store.write(takeover.batch)
        serve(SimulatedBroker(shards: shards, store: store, start: 1_795_279_000_000), database)
    }
    return 0
}

private func serve(_ broker: SimulatedBroker, _ database: MosquittoDatabase) {
    broker.settleTurnsMax = 100_000
    broker.settle()
    for (index, client) in database.clients.prefix(4).enumerated() {
        let returning = broker.client(client.identifier, version: index % 2 == 0 ? .v5 : .v311)
        returning.connect(clean: false, expiry: index % 2 == 0 ? 100 : nil)
        broker.settle()
    }
    broker.advance(seconds: 200)
    broker.stop()
    // Its connections and it hold each other.
    broker.shards = []
}
