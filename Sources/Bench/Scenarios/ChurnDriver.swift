import MQTTCodec
import Platform

/// Keeps so many places busy: in each a client connects, subscribes, publishes to itself, receives it and says goodbye; the next follows.
///
/// The broker closes a connection after DISCONNECT [MQTT-3.14.4-3 v5]; a place is free when it has.
final class ChurnDriver: LoadDriver {
    private struct Place {
        let index: Int
        let template: PublishTemplate
        var client: LoadClient?
        var start: UInt64 = 0
        var hasPublished = false
        var hasSaidGoodbye = false
    }

    private let workload: Workload
    private let control: LoadControl
    private let maker: ChannelMaker
    private var places: [Place]
    private var serial = 0

    init(_ workload: Workload, places: [Int], maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.workload = workload
        self.control = control
        self.maker = maker
        self.places = places.map { index in
            let template = PublishTemplate(
                topic: workload.topic(publisher: index, index: 0), filler: filler, qos: workload.qos,
                version: workload.options.version)
            return Place(index: index, template: template)
        }
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        worker.recorder.recordsMessages = false
        switch control.phase {
        case .connecting, .draining: break
        case .warming, .measuring:
            for index in places.indices where places[index].client == nil { open(index, worker) }
        case .over:
            for place in places { place.client?.end(worker) }
        }
        // A place that the kernel refused is tried again.
        return now + 10
    }

    func received(_ client: LoadClient, _ worker: Worker) {
        guard let index = places.firstIndex(where: { $0.client === client }) else { return }
        if client.connection.isReady, !places[index].hasPublished {
            places[index].hasPublished = true
            client.connection.publish(places[index].template, stamp: MonotonicClock.nanoseconds())
            client.flush(worker)
        } else if client.connection.deliveredCount > 0, client.connection.inFlightCount == 0, !places[index].hasSaidGoodbye {
            places[index].hasSaidGoodbye = true
            client.connection.end()
            client.flush(worker)
        }
    }

    func ended(_ client: LoadClient, _ worker: Worker) {
        guard let index = places.firstIndex(where: { $0.client === client }) else { return }
        if places[index].hasSaidGoodbye {
            worker.rounds += 1
            roundEnded(places[index].start, worker)
        } else if control.phase != .over {
            worker.endedCount += 1
        }
        places[index].client = nil
    }

    private func roundEnded(_ start: UInt64, _ worker: Worker) {
        worker.recorder.now = MonotonicClock.nanoseconds()
        worker.recorder.record(since: start)
    }

    private func open(_ index: Int, _ worker: Worker) {
        serial += 1
        let options = SubscriptionOptions(maximumQoS: workload.subscriberQoS)
        let connection = LoadConnection(
            connect: workload.connect("c", places[index].index + serial * workload.publisherCount),
            subscription: Subscription(filter: workload.filter(subscriber: places[index].index), options: options),
            inFlightMax: workload.options.inFlight, publisherCount: 0, tally: worker.tally)
        places[index].start = MonotonicClock.nanoseconds()
        places[index].hasPublished = false
        places[index].hasSaidGoodbye = false
        do throws(SystemError) {
            places[index].client = try LoadClient(
                connection: connection, channel: maker.makeChannel(workspace: worker.workspace), worker: worker)
        } catch {
            worker.note(failure: "\(error)")
            worker.endedCount += 1
        }
    }
}
