import BrokerModel
import MQTTCodec

/// The subscription tree among 10,000 and a million subscriptions on distinct three-level filters, held by a thousand
/// sessions.
func measureTree(_ meter: inout Meter) {
    for (count, words) in [(10_000, "10,000"), (1_000_000, "a million")] {
        let name = "tree/\(words)"
        guard meter.wants(name) else { continue }
        measureTree(&meter, name, count)
    }
}

private func measureTree(_ meter: inout Meter, _ name: String, _ count: Int) {
    let filters = Texts((0..<count).map(filterText))
    let before = liveBytes()
    let hashing = TopicHash(seed: 0x1234_5678_9abc_def1)
    var tree = SubscriptionTree(hashing: hashing)
    let terms = SubscriptionTerms(maximumQoS: .atMostOnce)
    meter.measure("\(name): subscribe, from none", samples: 1, operations: count) { operations in
        for index in 0..<operations { _ = tree.insert(filters[index], subscriber: subscriber(index), terms: terms) }
    }
    let bytes = Double(liveBytes() - before) / Double(count)
    meter.tell("\(name): memory of a subscription, filter included", bytes, "bytes")
    meter.tell("\(name): memory beyond the filter's bytes", bytes - Double(filters.byteCount) / Double(count), "bytes")

    // Every 7919th, so that neighbours in time are none in memory.
    meter.measure("\(name): unsubscribe and subscribe again") { operations in
        var index = 0
        for _ in 0..<operations {
            index = (index + 7919) % count
            let record = tree.find(filters[index], subscriber: subscriber(index))
            tree.remove(record)
            _ = tree.insert(filters[index], subscriber: subscriber(index), terms: terms)
        }
    }
    let topics = Texts((0..<min(count, 200_000)).map { topicText($0 &* 104_729 % count) })
    measureMatch(&meter, "\(name): match a new topic, exact filters", &tree, topics)
    for (index, wildcard) in wildcards.enumerated() {
        let text = Texts([wildcard])
        _ = tree.insert(text[0], subscriber: subscriber(index), terms: terms)
    }
    measureMatch(&meter, "\(name): match a new topic, and wildcards", &tree, topics)
    measureAudience(&meter, name, &tree, topics, hashing)
}

/// What a publish asks: the cache of matches, and behind it the tree.
private func measureAudience(
    _ meter: inout Meter, _ name: String, _ tree: inout SubscriptionTree, _ topics: Texts, _ hashing: TopicHash
) {
    var sessions = SessionTable(shard: 0, ofBroker: AnyCount())
    for index in 0..<sessionCount {
        _ = sessions.make(EncodedString("session \(index)") ?? "", publisherKey: UInt64(index))
    }
    var cache = MatchCache(hashing: hashing)
    // A line for each, so that none drives another out.
    var lines: Set<UInt64> = []
    let seen = (0..<min(topics.count, 1000)).filter {
        lines.insert(hashing.hash(topics[$0]) % UInt64(MatchCache.lineCount)).inserted
    }
    for (words, indexes, isNew) in [("seen before", seen, false), ("not seen before", Array(0..<topics.count), true)] {
        var cursor = 0
        meter.measure("\(name): audience of a topic \(words)") { operations in
            var found = 0
            for _ in 0..<operations {
                if isNew { tree.forgetMatches() }
                let matches = cache.matches(of: topics[indexes[cursor]], in: &tree, sessions: sessions)
                found &+= matches.with { $0.routeCount }
                cursor = cursor + 1 == indexes.count ? 0 : cursor + 1
            }
            use(found)
        }
    }
}

private let sessionCount = 1000
private func subscriber(_ index: Int) -> Subscriber { .session(UInt32(index % sessionCount)) }

private func measureMatch(_ meter: inout Meter, _ name: String, _ tree: inout SubscriptionTree, _ topics: Texts) {
    var cursor = 0
    meter.measure(name) { operations in
        var found = 0
        for _ in 0..<operations {
            tree.match(topics[cursor]) { _ in found &+= 1 }
            cursor = cursor + 1 == topics.count ? 0 : cursor + 1
        }
        use(found)
    }
}

/// Site, device, quantity: a thousand sites whatever the number of devices.
private func filterText(_ index: Int) -> String { "site\(index % 1000)/device\(index / 4)/quantity\(index % 4)" }
private func topicText(_ index: Int) -> String { filterText(index) }

private let wildcards = ["site1/#", "+/device5/quantity1", "site7/+/quantity3", "+/+/quantity9"]
