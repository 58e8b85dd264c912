import BrokerModel
import MQTTCodec

/// Reload and those who are connected: as in mosquitto, who would not be let in any more has to go.
extension BrokerShard {
    /// Ends the connections of clients whose logins do not hold any more: 5.0 clients are told with 0x87. The shell knows the
    /// users; who has a name from a certificate or a pre-shared key is judged here first. Whoever is about to be handed over with
    /// such a login is asked again where it goes. O(connections).
    public func dismissClients(unless holds: (ConnectedLogin) -> Bool) {
        for id in leaving {
            guard let connection = connections.find(id), let login = connection.extras?.login else { continue }
            let method = connection.extras?.authenticationMethod
            if !holds(ConnectedLogin(info: connection.info, userName: login.userName, method: method)) {
                connection.extras?.login = nil
            }
        }
        for connection in Array(connections.all)
        where connection.state == .connected && !connection.isLocal {
            let login = ConnectedLogin(
                info: connection.info, userName: connection.userName, method: connection.extras?.authenticationMethod)
            let source = settings.listeners[connection.info.listener].userNameSource
            let isVouchedFor =
                source == .login || login.method != nil || verifiedName(of: connection.info, source) == connection.userName
            guard !isVouchedFor || !holds(login) else { continue }
            refuse(connection, .notAuthorized, because: "its login is no longer valid since the configuration was reloaded.")
        }
    }

    /// Ends the connections that came by a listener which is closed in these settings. A 5.0 client is told with 0x98. O(connections).
    func dismissClients(ofClosedIn settings: BrokerSettings) {
        for connection in Array(connections.all) where connection.info.listener >= 0 && connection.state != .closing {
            guard settings.listeners[connection.info.listener].isClosed else { continue }
            refuse(connection, .administrativeAction, because: "its listener was closed.")
        }
    }

    /// Ends the connections of clients without a user name at listeners that let none in. A 5.0 client is told with 0x87.
    func dismissUnknownUsers() {
        guard settings.listeners.contains(where: { !$0.allowsAnonymous }) else { return }
        for connection in Array(connections.all) where connection.state == .connected && connection.userName == nil {
            // Who logged in by an Authentication Method has no user name, but is known.
            guard !settings.policy(of: connection.info.listener).allowsAnonymous, connection.extras?.authenticationMethod == nil
            else { continue }
            refuse(connection, .notAuthorized, because: "clients without a user name are no longer allowed.")
        }
    }
}
