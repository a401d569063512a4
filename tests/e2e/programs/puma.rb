# frozen_string_literal: true

workers 2
threads 2, 2
preload_app!
bind "unix://#{ENV.fetch("SHOP_SOCKET")}"
environment "production"
