#include "CDashboard.h"

// Of C23, which clang has in every language mode.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char file_index_html[] = {
#embed "site/index.html"
};
static const unsigned char file_api_js[] = {
#embed "site/api.js"
};
static const unsigned char file_app_js[] = {
#embed "site/app.js"
};
static const unsigned char file_chart_js[] = {
#embed "site/chart.js"
};
static const unsigned char file_dom_js[] = {
#embed "site/dom.js"
};
static const unsigned char file_format_js[] = {
#embed "site/format.js"
};
static const unsigned char file_martlet_svg[] = {
#embed "site/martlet.svg"
};
static const unsigned char file_mqtt_js[] = {
#embed "site/mqtt.js"
};
static const unsigned char file_pages_access_js[] = {
#embed "site/pages/access.js"
};
static const unsigned char file_pages_audit_js[] = {
#embed "site/pages/audit.js"
};
static const unsigned char file_pages_client_js[] = {
#embed "site/pages/client.js"
};
static const unsigned char file_pages_clients_js[] = {
#embed "site/pages/clients.js"
};
static const unsigned char file_pages_configuration_js[] = {
#embed "site/pages/configuration.js"
};
static const unsigned char file_pages_listeners_js[] = {
#embed "site/pages/listeners.js"
};
static const unsigned char file_pages_overview_js[] = {
#embed "site/pages/overview.js"
};
static const unsigned char file_pages_publish_js[] = {
#embed "site/pages/publish.js"
};
static const unsigned char file_pages_retained_js[] = {
#embed "site/pages/retained.js"
};
static const unsigned char file_pages_topics_js[] = {
#embed "site/pages/topics.js"
};
static const unsigned char file_pages_trace_js[] = {
#embed "site/pages/trace.js"
};
static const unsigned char file_pages_trouble_js[] = {
#embed "site/pages/trouble.js"
};
static const unsigned char file_style_css[] = {
#embed "site/style.css"
};
static const unsigned char file_table_js[] = {
#embed "site/table.js"
};

#define FILE_OF(path, type, bytes) { path, type, bytes, sizeof bytes }

const struct martlet_dashboard_file martlet_dashboard_files[] = {
    FILE_OF("index.html", "text/html; charset=utf-8", file_index_html),
    FILE_OF("api.js", "text/javascript; charset=utf-8", file_api_js),
    FILE_OF("app.js", "text/javascript; charset=utf-8", file_app_js),
    FILE_OF("chart.js", "text/javascript; charset=utf-8", file_chart_js),
    FILE_OF("dom.js", "text/javascript; charset=utf-8", file_dom_js),
    FILE_OF("format.js", "text/javascript; charset=utf-8", file_format_js),
    FILE_OF("martlet.svg", "image/svg+xml", file_martlet_svg),
    FILE_OF("mqtt.js", "text/javascript; charset=utf-8", file_mqtt_js),
    FILE_OF("pages/access.js", "text/javascript; charset=utf-8", file_pages_access_js),
    FILE_OF("pages/audit.js", "text/javascript; charset=utf-8", file_pages_audit_js),
    FILE_OF("pages/client.js", "text/javascript; charset=utf-8", file_pages_client_js),
    FILE_OF("pages/clients.js", "text/javascript; charset=utf-8", file_pages_clients_js),
    FILE_OF("pages/configuration.js", "text/javascript; charset=utf-8", file_pages_configuration_js),
    FILE_OF("pages/listeners.js", "text/javascript; charset=utf-8", file_pages_listeners_js),
    FILE_OF("pages/overview.js", "text/javascript; charset=utf-8", file_pages_overview_js),
    FILE_OF("pages/publish.js", "text/javascript; charset=utf-8", file_pages_publish_js),
    FILE_OF("pages/retained.js", "text/javascript; charset=utf-8", file_pages_retained_js),
    FILE_OF("pages/topics.js", "text/javascript; charset=utf-8", file_pages_topics_js),
    FILE_OF("pages/trace.js", "text/javascript; charset=utf-8", file_pages_trace_js),
    FILE_OF("pages/trouble.js", "text/javascript; charset=utf-8", file_pages_trouble_js),
    FILE_OF("style.css", "text/css; charset=utf-8", file_style_css),
    FILE_OF("table.js", "text/javascript; charset=utf-8", file_table_js),
};

const size_t martlet_dashboard_file_count = sizeof martlet_dashboard_files / sizeof martlet_dashboard_files[0];
