import MQTTCodec

/// `allow_anonymous` on reload: as in mosquitto, who was let in without a name has to go when nobody is any more.
extension BrokerShard {
    /// Ends the connections of clients without a user name at listeners that let none in. A 5.0 client is told with 0x87.
    func dismissStrangers() {
        guard settings.listeners.contains(where: { !$0.allowsAnonymous }) else { return }
        for connection in Array(connections.all) where connection.state == .connected && connection.userName == nil {
            // Who logged in by an Authentication Method has no user name, but is no stranger.
            guard !settings.listeners[connection.info.listener].allowsAnonymous, connection.extras?.authenticationMethod == nil
            else { continue }
            refuse(connection, .notAuthorized, because: "clients without a user name are not let in any more.")
        }
    }
}
