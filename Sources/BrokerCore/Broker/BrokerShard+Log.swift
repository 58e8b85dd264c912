/// Lines for the log, in mosquitto's wording.
extension BrokerShard {
    /// Logs a line; its text is made only when somebody wants it.
    @inline(__always)
    func log(_ topic: LogTopics, _ text: () -> String) {
        if settings.logTopics.contains(topic) { effects.append(.log(topic, text())) }
    }
}
